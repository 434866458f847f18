package wal

import "github.com/keelson-dev/keelson/storage/internal/disk"

// OpenOn is Open on what stands for a directory: tests make it fail. Nobody else may use it meanwhile.
func OpenOn(dir disk.Dir, options Options) (*Store, error) { return open(dir, "", options) }
