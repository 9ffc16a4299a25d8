"""What the daemon says and hears over HTTP: deliveries of services, and the links of approvals."""
