"""The daemon's HTTP interface: deliveries of services, and the links of approvals."""
