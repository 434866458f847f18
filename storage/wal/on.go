package wal

import "github.com/keelson-dev/keelson/storage/internal/disk"

// OpenOn is Open on a disk.Dir, for tests that make it fail. Nothing else may use the Dir meanwhile.
func OpenOn(dir disk.Dir, options Options) (*Store, error) { return open(dir, "", options) }
