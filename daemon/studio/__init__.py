"""The Studio: pages that show and control runs in a browser, in a process of their own."""
