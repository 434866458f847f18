package replicas

// The pure parts, for tables.
var (
	Victims = victims
	Status  = status
	Again   = again
)
