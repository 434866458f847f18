// Package ociimage makes container images where no registry is reachable: archives of the OCI layout that containerd
// imports under the names in them, and a registry that serves such archives for tests of pulling.
//
// A Recipe describes an image; Build makes its archive unless it exists, so that only the first call takes time. Pause,
// Busybox and Nginx make what a node and a first deployment need, from Debian's packages and the host's C compiler;
// package debian unpacks those packages. Equal inputs give equal bytes: times are fixed and files belong to root, so
// making images needs no privileges.
//
// Builders of the same directory exclude each other by a file lock, across processes. All functions may be called from
// several goroutines.
package ociimage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/node/filelock"
)

// ErrRecipe: a recipe lacks something, or an image has a name that is not of the form host/repository:tag.
var ErrRecipe = errors.New("bad recipe")

// Recipe says how to make an archive.
type Recipe struct {
	// Name is the name of the archive's file, without .tar.
	Name string
	// Images are those in the archive. They share the layer that Fill makes.
	Images []Image
	// Version identifies the output of Fill: change it whenever Fill would make something else. It is part of the check
	// whether an archive is current.
	Version string
	// Fill puts the files into the tree. It may keep files in scratch, which lives until the archive is written.
	Fill func(ctx context.Context, scratch string, t *Tree) error
}

// Image is one image of an archive.
type Image struct {
	// References are its full names, such as docker.io/library/nginx:latest.
	References []string
	Config     Config
	// Extra, if set, adds further files over the common ones. If its output changes, change Version.
	Extra func(t *Tree) error
}

// Config is how containers of an image run, as an OCI image configuration has it.
type Config struct {
	User         string              `json:",omitempty"`
	ExposedPorts map[string]struct{} `json:",omitempty"`
	Env          []string            `json:",omitempty"`
	Entrypoint   []string            `json:",omitempty"`
	Cmd          []string            `json:",omitempty"`
	WorkingDir   string              `json:",omitempty"`
	Labels       map[string]string   `json:",omitempty"`
	StopSignal   string              `json:",omitempty"`
}

// format changes when archives of the same recipes change.
const format = "2"

// Build makes the recipe's archive in dir, unless it exists and is current, and returns its path. progress receives
// messages about slow steps; nil discards. Build waits for another builder of the same archive, until the context ends.
func Build(ctx context.Context, dir string, r Recipe, progress io.Writer) (path string, err error) {
	if err := r.check(); err != nil {
		return "", err
	}
	if progress == nil {
		progress = io.Discard
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("image %s: %w", r.Name, err)
	}
	unlock, err := filelock.Take(ctx, filepath.Join(dir, "."+r.Name+".lock"), func() {
		fmt.Fprintf(progress, "waiting for another process that makes image %s\n", r.Images[0].References[0])
	})
	if err != nil {
		return "", fmt.Errorf("image %s: %w", r.Name, err)
	}
	defer unlock()
	path = filepath.Join(dir, r.Name+".tar")
	stamp := filepath.Join(dir, "."+r.Name+".stamp")
	if current(path, stamp, r.key()) {
		return path, nil
	}
	began := time.Now()
	fmt.Fprintf(progress, "making image %s\n", r.Images[0].References[0])
	size, err := r.make(ctx, path, stamp)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", r.Name, err)
	}
	fmt.Fprintf(progress, "made %s, %.1f MB in %.1f s\n", path, float64(size)/1e6, time.Since(began).Seconds())
	return path, nil
}

func (r Recipe) check() error {
	if r.Name == "" || strings.ContainsAny(r.Name, "/\\") || r.Fill == nil || len(r.Images) == 0 {
		return fmt.Errorf("%w: a plain name, an image and Fill are needed: %q", ErrRecipe, r.Name)
	}
	for _, i := range r.Images {
		if len(i.References) == 0 {
			return fmt.Errorf("%w: %s: an image without a name", ErrRecipe, r.Name)
		}
		for _, n := range i.References {
			if _, err := parseReference(n); err != nil {
				return fmt.Errorf("%w: %s: %w", ErrRecipe, r.Name, err)
			}
		}
	}
	return nil
}

// key tells recipes apart.
func (r Recipe) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %q %q", format, runtime.GOARCH, r.Name, r.Version)
	for _, i := range r.Images {
		fmt.Fprintf(h, " %q %q", i.References, fmt.Sprintf("%+v", i.Config)) // maps are printed in the order of their keys
	}
	return hex.EncodeToString(h.Sum(nil))
}

// make writes the archive to a temporary file and renames it, then writes the stamp.
func (r Recipe) make(ctx context.Context, path, stamp string) (size int64, err error) {
	scratch, err := os.MkdirTemp(filepath.Dir(path), "."+r.Name+"-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	tree := &Tree{}
	if err := r.Fill(ctx, scratch, tree); err != nil {
		return 0, err
	}
	draft := filepath.Join(scratch, "draft.tar")
	if size, err = writeArchive(draft, scratch, tree, r.Images); err != nil {
		return 0, err
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if err := os.Rename(draft, path); err != nil {
		return 0, err
	}
	return size, os.WriteFile(stamp, []byte(stampOf(r.key(), size)), 0o644)
}

func stampOf(key string, size int64) string { return fmt.Sprintf("%s %d\n", key, size) }

// current reports whether the archive exists and matches its stamp.
func current(path, stamp, key string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	content, err := os.ReadFile(stamp)
	return err == nil && string(content) == stampOf(key, info.Size())
}
