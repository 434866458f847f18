package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// marker is the file that identifies a data directory; it holds the layout's version.
const (
	marker = "keelson-cluster"
	layout = "1\n"
)

// claim makes sure that dir is a data directory: an empty or new one becomes one.
func claim(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w; choose a directory that you may write to", err)
	}
	path := filepath.Join(dir, marker)
	content, err := os.ReadFile(path)
	switch {
	case err == nil && string(content) == layout:
		return nil
	case err == nil:
		return fmt.Errorf("--data-dir: %s says layout %q, this program knows %q: use the program that made the directory, or another directory",
			path, strings.TrimSpace(string(content)), strings.TrimSpace(layout))
	case !errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("--data-dir: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	// A crash while the marker was written may have left it under its temporary name. A second API server of a cluster
	// starts with a copy of the first one's authority and keys.
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == marker+".new" || e.Name() == "pki" })
	if len(entries) > 0 {
		return fmt.Errorf("--data-dir: %s holds other things, such as %q: choose an empty or new directory", dir, entries[0].Name())
	}
	if err := os.WriteFile(path+".new", []byte(layout), 0o600); err != nil {
		return fmt.Errorf("--data-dir: %w; choose a directory that you may write to", err)
	}
	return os.Rename(path+".new", path)
}
