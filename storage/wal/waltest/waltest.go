// Package waltest is a disk whose power can fail, for tests of programs on a wal store.
package waltest

import (
	"math/rand/v2"

	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// Disk holds one store in memory. After a crash it has what was synced, and an arbitrary part of the rest, torn or
// garbled. Crashed may be called at any time, all else by one goroutine.
type Disk struct{ disk *crashdisk.Disk }

// Options of a Disk; the zero value is a correct disk.
type Options struct {
	// IgnoreSync makes syncs do nothing, as on bad hardware: a test that does not notice this tests nothing.
	IgnoreSync bool
}

// NewDisk returns an empty disk.
func NewDisk(o Options) *Disk {
	return &Disk{crashdisk.New(crashdisk.Faults{IgnoreSync: o.IgnoreSync})}
}

// Open opens the store. A previous one must be closed first, whatever its Close returns.
func (d *Disk) Open(options wal.Options) (*wal.Store, error) { return wal.OpenOn(d.disk, options) }

// CrashAfter plans a crash: the given number of operations succeed, the next one is torn, and all later ones fail.
func (d *Disk) CrashAfter(operations int) { d.disk.CrashAfter(operations) }

// Crashed reports whether the disk has crashed.
func (d *Disk) Crashed() bool { return d.disk.Crashed() }

// PowerOn crashes the disk, unless it has crashed already, and restarts it with what is left.
func (d *Disk) PowerOn(random *rand.Rand) { d.disk = d.disk.Restart(random) }

// Revive restarts after a crash of the process alone: everything it wrote is there, synced or not.
func (d *Disk) Revive() { d.disk.Revive() }
