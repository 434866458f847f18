// Package waltest has a disk whose power fails, for tests of what stands on a wal store.
package waltest

import (
	"math/rand/v2"

	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// Disk holds one store in memory. After a crash it has what was synced, and an arbitrary part of the rest, torn or
// garbled. Crashed may be called at any time, all else by one goroutine.
type Disk struct{ disk *crashdisk.Disk }

// Options of a Disk; the zero value is an honest one.
type Options struct {
	// IgnoreSync says that bytes are synced which are not, as bad hardware does: a test that does not notice
	// tests nothing.
	IgnoreSync bool
}

// NewDisk returns an empty disk.
func NewDisk(o Options) *Disk {
	return &Disk{crashdisk.New(crashdisk.Faults{IgnoreSync: o.IgnoreSync})}
}

// Open opens the store. One that was opened before must be closed, whatever its Close says.
func (d *Disk) Open(options wal.Options) (*wal.Store, error) { return wal.OpenOn(d.disk, options) }

// CrashAfter plans a crash: so many operations of the disk succeed, the next one is torn, and all after it fail.
func (d *Disk) CrashAfter(operations int) { d.disk.CrashAfter(operations) }

// Crashed tells whether it has happened.
func (d *Disk) Crashed() bool { return d.disk.Crashed() }

// PowerOn crashes the disk, if that has not happened yet, and starts it again with what is left.
func (d *Disk) PowerOn(random *rand.Rand) { d.disk = d.disk.Restart(random) }

// Revive starts again after a crash that only the process had: all it wrote is there, synced or not.
func (d *Disk) Revive() { d.disk.Revive() }
