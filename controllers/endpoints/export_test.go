package endpoints

import "github.com/keelson-dev/keelson/controllers/internal/backends"

// The pure parts, for tables.
var (
	Pack     = backends.Pack
	UpToDate = upToDate
	Desired  = desired
	Truncate = truncate
)
