package endpoints

// The pure parts, for tables.
var (
	Pack     = pack
	UpToDate = upToDate
	Desired  = desired
	Truncate = truncate
)
