"""What people see: tables, colours, wrapped lines, pages that are drawn again."""
