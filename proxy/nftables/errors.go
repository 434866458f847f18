package nftables

import "errors"

// Errors of Update.
var (
	// ErrUnsynced: there was no Sync, or something failed since.
	ErrUnsynced = errors.New("the tables have to be written in full first")
	// ErrChanged: others have changed the table.
	ErrChanged = errors.New("the table was changed by others")
)
