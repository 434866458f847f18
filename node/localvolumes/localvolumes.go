// Package localvolumes keeps the directories of local persistent volumes on this machine: those of each node below a root
// of its own. It implements localprovisioner.Directories.
//
// # Errors and concurrency
//
// Names that are not those of one file are refused with ErrName. Remove stops at whatever is mounted in a directory, and
// leaves it. A Directories is safe for concurrent use.
package localvolumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/kubelet/volume"
)

// ErrName means that a volume's name cannot be that of a directory.
var ErrName = errors.New("not the name of a directory")

// Directories are those of the nodes of this machine. Make one with New.
type Directories struct {
	root func(node string) string
}

// New keeps the volumes of each node in the directory that root returns, which is absolute; for nodes of other machines
// root returns an empty string.
func New(root func(node string) string) *Directories { return &Directories{root: root} }

// Serves reports whether the node has a root.
func (d *Directories) Serves(node string) bool { return d.root(node) != "" }

// Make makes the directory of a volume, which everybody may use who can reach it, and returns its path.
func (d *Directories) Make(_ context.Context, node, name string) (string, error) {
	dir, err := d.path(node, name)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return "", err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	return dir, os.Chmod(dir, info.Mode().Perm()|0o777|info.Mode()&fs.ModeSetgid)
}

// Remove removes the directory of a volume with everything in it.
func (d *Directories) Remove(_ context.Context, node, name string) error {
	dir, err := d.path(node, name)
	if err != nil {
		return err
	}
	return volume.RemoveAll(dir)
}

func (d *Directories) path(node, name string) (string, error) {
	root := d.root(node)
	if root == "" {
		return "", fmt.Errorf("node %s has no volumes here", node)
	}
	if name == "" || strings.Trim(name, ".") == "" || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%w: %q", ErrName, name)
	}
	return filepath.Join(root, name), nil
}
