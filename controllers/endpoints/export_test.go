package endpoints

// Pack is a pure part, for tables.
var Pack = pack
