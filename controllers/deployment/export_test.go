package deployment

// The pure parts, for tables.
var (
	TemplateHash = templateHash
	MakeSet      = makeSet
)
