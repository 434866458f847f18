package nftables

import "errors"

var (
	// ErrUnsynced is of Update: there was no Sync, or something failed since.
	ErrUnsynced = errors.New("the tables have to be written in full first")
	// ErrChanged is of Update: others have changed the table.
	ErrChanged = errors.New("the table was changed by others")
	// ErrBridges is of PoliceBridges: the kernel does not show what passes a bridge to the rules.
	ErrBridges = errors.New("packets between the ports of a bridge do not pass the rules")
)
