package crashdisk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// ErrCrashed is what every operation returns from the crash on.
var ErrCrashed = errors.New("the disk crashed")

// Faults breaks the disk's promises, to see whether a test notices.
type Faults struct {
	IgnoreSync    bool // File.Sync does nothing and reports success
	IgnoreDirSync bool // Dir.Sync does nothing and reports success
}

// Disk is a directory that can crash. It is safe for concurrent use.
type Disk struct {
	faults Faults

	mu      sync.Mutex
	names   map[string]*inode // as programs see them
	durable map[string]*inode // as of the last Sync
	pending []rename          // since then, in order
	left    int               // operations before the crash; negative means no crash planned
	crashed bool
	fail    func(operation, name string) error
}

var _ disk.Dir = (*Disk)(nil)

// rename is a change of names: an inode gets a name, loses one, or both.
type rename struct {
	from, to string
	inode    *inode
}

// inode is a file. Bytes once written are never changed in place, so that slices can be shared:
// Write appends and Truncate makes the next Write copy.
type inode struct {
	data   []byte // as programs see it
	synced []byte // what a crash leaves untouched
}

// New returns an empty directory.
func New(faults Faults) *Disk {
	return &Disk{faults: faults, names: map[string]*inode{}, durable: map[string]*inode{}, left: -1}
}

// CrashAfter plans the crash: n changing operations succeed, the next one is torn by it.
func (d *Disk) CrashAfter(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left = n
}

// Fail installs a function that may fail an operation (named like the methods, such as "Write"), which then does
// nothing. Nil removes it.
func (d *Disk) Fail(f func(operation, name string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = f
}

// Crashed reports whether the planned crash has happened.
func (d *Disk) Crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed
}

// Restart crashes the disk, if that has not happened yet, and returns what is left of it.
func (d *Disk) Restart(random *rand.Rand) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashed = true
	next := New(d.faults)
	next.names = maps.Clone(d.durable)
	prefix := random.IntN(2) == 0 // most file systems lose a suffix of the changes, but need not
	kept := random.IntN(len(d.pending) + 1)
	for i, change := range d.pending {
		if prefix && i >= kept || !prefix && random.IntN(2) == 0 {
			continue
		}
		delete(next.names, change.from)
		if change.to != "" {
			next.names[change.to] = change.inode
		}
	}
	images := map[*inode]*inode{}
	for _, name := range slices.Sorted(maps.Keys(next.names)) {
		before := next.names[name]
		if images[before] == nil {
			image := before.survive(random)
			images[before] = &inode{data: image, synced: image}
		}
		next.names[name] = images[before]
	}
	next.durable = maps.Clone(next.names)
	return next
}

// Revive undoes a crash of the program alone: the disk keeps everything it was given, synced or not, as an operating
// system does when a process is killed.
func (d *Disk) Revive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashed, d.left = false, -1
}

const sector = 512

// survive returns what a crash makes of a file.
func (n *inode) survive(random *rand.Rand) []byte {
	if bytes.Equal(n.data, n.synced) {
		return bytes.Clone(n.synced)
	}
	size := len(n.data)
	switch low, high := min(len(n.data), len(n.synced)), max(len(n.data), len(n.synced)); random.IntN(4) {
	case 0:
		size = len(n.synced)
	case 1:
		size = low + random.IntN(high-low+1)
	}
	image := slices.Clip(make([]byte, size))
	copy(image, n.synced)
	for start := 0; start < size; start += sector {
		end := min(start+sector, size)
		if old, now := part(n.synced, start, end), part(n.data, start, end); !bytes.Equal(old, now) {
			damage(image[start:end], old, now, random)
		}
	}
	return image
}

func part(data []byte, start, end int) []byte {
	return data[min(start, len(data)):min(end, len(data))]
}

// damage applies to an unsynced sector, which holds the old bytes, what a crash may do to it. It leaves alone the bytes
// that the old and the new version begin with.
func damage(image, old, now []byte, random *rand.Rand) {
	same := 0
	for same < len(old) && same < len(now) && old[same] == now[same] {
		same++
	}
	image = image[min(same, len(image)):]
	now = now[same:]
	switch random.IntN(8) {
	case 0: // lost
	case 1: // torn
		copy(image, now[:random.IntN(len(now)+1)])
	case 2: // garbage
		for i := range image {
			image[i] = byte(random.Uint32())
		}
	case 3: // one bit
		copy(image, now)
		if len(image) > 0 {
			image[random.IntN(len(image))] ^= 1 << random.IntN(8)
		}
	default:
		copy(image, now)
	}
}

// change runs one changing operation, which the crash may interrupt.
func (d *Disk) change(operation, name string, do func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashed {
		return ErrCrashed
	}
	if d.fail != nil {
		if err := d.fail(operation, name); err != nil {
			return err
		}
	}
	if d.left == 0 {
		d.crashed = true
		if operation != "Sync" {
			_ = do() // it may have happened, and is not synced
		}
		return ErrCrashed
	}
	if d.left > 0 {
		d.left--
	}
	return do()
}

// Names implements disk.Reader.
func (d *Disk) Names() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashed {
		return nil, ErrCrashed
	}
	return slices.Sorted(maps.Keys(d.names)), nil
}

type source struct{ *bytes.Reader }

func (source) Close() error { return nil }

// Open implements disk.Reader.
func (d *Disk) Open(name string) (disk.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashed {
		return nil, ErrCrashed
	}
	node := d.names[name]
	if node == nil {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return source{bytes.NewReader(node.data)}, nil
}

// Create implements disk.Writer.
func (d *Disk) Create(name string) (disk.File, error) {
	node := &inode{}
	err := d.change("Create", name, func() error {
		if d.names[name] != nil {
			return fmt.Errorf("create %s: %w", name, fs.ErrExist)
		}
		d.names[name] = node
		d.pending = append(d.pending, rename{to: name, inode: node})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &file{disk: d, name: name, inode: node}, nil
}

// Append implements disk.Writer.
func (d *Disk) Append(name string) (disk.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crashed {
		return nil, ErrCrashed
	}
	node := d.names[name]
	if node == nil {
		return nil, fmt.Errorf("append to %s: %w", name, fs.ErrNotExist)
	}
	return &file{disk: d, name: name, inode: node}, nil
}

// Rename implements disk.Namer.
func (d *Disk) Rename(from, to string) error {
	return d.change("Rename", from, func() error {
		node := d.names[from]
		if node == nil {
			return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
		}
		delete(d.names, from)
		d.names[to] = node
		d.pending = append(d.pending, rename{from: from, to: to, inode: node})
		return nil
	})
}

// Remove implements disk.Namer.
func (d *Disk) Remove(name string) error {
	return d.change("Remove", name, func() error {
		if d.names[name] == nil {
			return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
		}
		delete(d.names, name)
		d.pending = append(d.pending, rename{from: name})
		return nil
	})
}

// Sync implements disk.Namer.
func (d *Disk) Sync() error {
	return d.change("Sync", "", func() error {
		if !d.faults.IgnoreDirSync {
			d.durable = maps.Clone(d.names)
			d.pending = nil
		}
		return nil
	})
}

// Contents returns what programs see in a file.
func (d *Disk) Contents(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if node := d.names[name]; node != nil {
		return bytes.Clone(node.data)
	}
	return nil
}

// Replace makes a file hold these bytes, durably. Nil removes it.
func (d *Disk) Replace(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if data == nil {
		delete(d.names, name)
		delete(d.durable, name)
		return
	}
	data = slices.Clip(bytes.Clone(data))
	node := &inode{data: data, synced: data}
	d.names[name], d.durable[name] = node, node
}

type file struct {
	disk  *Disk
	name  string
	inode *inode
}

func (f *file) Write(p []byte) (int, error) {
	err := f.disk.change("Write", f.name, func() error {
		f.inode.data = append(f.inode.data, p...)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *file) Truncate(size int64) error {
	return f.disk.change("Truncate", f.name, func() error {
		f.inode.data = slices.Clip(f.inode.data[:size])
		return nil
	})
}

func (f *file) Sync() error {
	return f.disk.change("Sync", f.name, func() error {
		if !f.disk.faults.IgnoreSync {
			f.inode.synced = slices.Clip(f.inode.data)
		}
		return nil
	})
}

func (f *file) Close() error { return nil }
