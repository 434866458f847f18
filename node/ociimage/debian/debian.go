// Package debian unpacks packages of the host's Debian release, without installing them, and finds the files that their
// programs need to run: loader and libraries. It also fetches sources. It needs apt-get and dpkg-deb, no privileges,
// and treats /bin, /sbin, /lib and /lib64 as parts of /usr.
package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

var (
	// ErrNoDebian: the host lacks apt-get or dpkg-deb.
	ErrNoDebian = errors.New("no Debian packages are available on this host")
	// ErrNotFound: no package has the file or the library.
	ErrNotFound = errors.New("not in the packages")
)

// File is a file of a package. Its path is relative to the root.
type File struct {
	Path string // below the root, without a leading slash
	// Host is its path on the host; empty for symbolic links.
	Host string
	Mode fs.FileMode
	// Target is what a symbolic link points to.
	Target string
}

// Root is the content of several packages. It may be used from several goroutines.
type Root struct{ files map[string]File }

// Unpack fetches packages by name and unpacks them into dir, which must be empty. If the lists of packages are missing
// or outdated it fetches these first, which requires root.
func Unpack(ctx context.Context, dir string, packages ...string) (*Root, error) {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoDebian, err)
		}
	}
	fetched, content := filepath.Join(dir, "fetched"), filepath.Join(dir, "content")
	for _, d := range []string{fetched, content} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	// apt's user for downloads may not write here.
	download := append([]string{"apt-get", "-q", "-o", "APT::Sandbox::User=root", "download"}, packages...)
	if first := run(ctx, fetched, download); first != nil {
		if err := run(ctx, fetched, []string{"apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", "update"}); err != nil {
			return nil, errors.Join(first, err)
		}
		if err := run(ctx, fetched, download); err != nil {
			return nil, err
		}
	}
	archives, err := filepath.Glob(filepath.Join(fetched, "*.deb"))
	if err != nil {
		return nil, err
	}
	for _, archive := range archives {
		if err := run(ctx, content, []string{"dpkg-deb", "--extract", archive, "."}); err != nil {
			return nil, err
		}
	}
	return Open(content)
}

func run(ctx context.Context, dir string, words []string) error {
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Dir = dir
	command.Env = append(command.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(words[:2], " "), err, out)
	}
	return nil
}

// Source fetches the upstream source of a package, without Debian's changes, and unpacks it into dir, which must be
// empty. It returns the directory that contains the source.
func Source(ctx context.Context, dir, name string) (string, error) {
	for _, program := range []string{"apt-get", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoDebian, err)
		}
	}
	release, err := release()
	if err != nil {
		return "", err
	}
	archive, err := archive(ctx, release)
	if err != nil {
		return "", err
	}
	state, fetched, content := filepath.Join(dir, "state"), filepath.Join(dir, "fetched"), filepath.Join(dir, "content")
	for _, d := range []string{filepath.Join(state, "lists", "partial"), filepath.Join(state, "archives", "partial"), fetched, content} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	// Hosts seldom have lists of sources: they get a directory of their own.
	list := filepath.Join(dir, "sources.list")
	line := "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] " + archive + " " + release + " main\n"
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		return "", err
	}
	apt := []string{
		"apt-get", "-q", "-o", "Dir::Etc::sourcelist=" + list, "-o", "Dir::Etc::sourceparts=-", "-o", "Dir::State=" + state,
		"-o", "Dir::State::status=/var/lib/dpkg/status", "-o", "Dir::Cache=" + state, "-o", "APT::Sandbox::User=root",
	}
	if err := run(ctx, fetched, append(slices.Clone(apt), "update")); err != nil {
		return "", err
	}
	if err := run(ctx, fetched, append(apt, "source", "--download-only", name)); err != nil {
		return "", err
	}
	original, err := filepath.Glob(filepath.Join(fetched, name+"_*.orig.tar.*"))
	if err != nil || len(original) == 0 {
		return "", errors.Join(fmt.Errorf("%w: the source of %s", ErrNotFound, name), err)
	}
	if err := run(ctx, content, []string{"tar", "--extract", "--strip-components=1", "--file", original[0]}); err != nil {
		return "", err
	}
	return content, nil
}

// release is the name of the host's release.
func release() (string, error) {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoDebian, err)
	}
	for line := range strings.Lines(string(content)) {
		if name, ok := strings.CutPrefix(line, "VERSION_CODENAME="); ok {
			return strings.Trim(name, "\"\n "), nil
		}
	}
	return "", fmt.Errorf("%w: /etc/os-release names no release", ErrNoDebian)
}

// archive is the host's source for packages of a release.
func archive(ctx context.Context, release string) (string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Identifier: Packages", "Component: main", "Release: "+release).Output()
	if err != nil {
		return "", fmt.Errorf("apt-get indextargets: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	if first == "" {
		return "", fmt.Errorf("%w: apt knows no archive of %s: see /etc/apt/sources.list", ErrNotFound, release)
	}
	return first, nil
}

// Open opens a directory of unpacked packages.
func Open(dir string) (*Root, error) {
	r := &Root{files: map[string]File{}}
	err := filepath.WalkDir(dir, func(host string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, host)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		f := File{Path: merged(filepath.ToSlash(rel)), Host: host, Mode: info.Mode()}
		if f.Mode&fs.ModeSymlink != 0 {
			f.Host = ""
			if f.Target, err = os.Readlink(host); err != nil {
				return err
			}
		}
		r.files[f.Path] = f
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read packages: %w", err)
	}
	return r, nil
}

// merged returns the path below usr if it moved there.
func merged(p string) string {
	p = strings.TrimPrefix(path.Clean("/"+p), "/")
	top, _, _ := strings.Cut(p, "/")
	if slices.Contains([]string{"bin", "sbin", "lib", "lib64"}, top) {
		return "usr/" + p
	}
	return p
}

// Below returns the files below a path, in path order.
func (r *Root) Below(dir string) []File {
	var found []File
	for p, f := range r.files {
		if strings.HasPrefix(p, merged(dir)+"/") {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// Need returns the files at the paths and everything they need: targets of symbolic links, loaders and libraries. It
// fails with ErrNotFound, and lists everything missing.
func (r *Root) Need(paths ...string) ([]File, error) {
	got := map[string]File{}
	var missing []error
	for queue := slices.Clone(paths); len(queue) > 0; queue = queue[1:] {
		p := merged(queue[0])
		if _, ok := got[p]; ok {
			continue
		}
		f, ok := r.files[p]
		if !ok {
			missing = append(missing, fmt.Errorf("%w: %s", ErrNotFound, p))
			continue
		}
		got[p] = f
		next, err := r.next(f)
		if err != nil {
			missing = append(missing, err)
		}
		queue = append(queue, next...)
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	files := make([]File, 0, len(got))
	for _, f := range got {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

// next returns the direct needs of a file.
func (r *Root) next(f File) ([]string, error) {
	if f.Host == "" {
		if path.IsAbs(f.Target) {
			return []string{f.Target}, nil
		}
		return []string{path.Join(path.Dir(f.Path), f.Target)}, nil
	}
	program, err := elf.Open(f.Host)
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, os.ErrPermission) {
		return nil, nil // a script or data
	}
	if err != nil {
		return nil, nilIfShort(f, err)
	}
	defer func() { _ = program.Close() }()
	return r.linked(f, program)
}

// nilIfShort ignores files that are too short to be programs.
func nilIfShort(f File, err error) error {
	if info, statErr := os.Stat(f.Host); statErr == nil && info.Size() < 64 {
		return nil
	}
	return fmt.Errorf("%s: %w", f.Path, err)
}

func (r *Root) linked(f File, program *elf.File) ([]string, error) {
	var need []string
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			name := make([]byte, part.Filesz)
			if _, err := part.ReadAt(name, 0); err != nil {
				return nil, fmt.Errorf("%s: read the loader's name: %w", f.Path, err)
			}
			need = append(need, strings.TrimRight(string(name), "\x00"))
		}
	}
	libraries, err := program.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("%s: read the names of libraries: %w", f.Path, err)
	}
	var missing []error
	for _, l := range libraries {
		if at, ok := r.library(l); ok {
			need = append(need, at)
		} else {
			missing = append(missing, fmt.Errorf("%w: %s, which %s needs", ErrNotFound, l, f.Path))
		}
	}
	return need, errors.Join(missing...)
}

// library finds a library in the loader's directories, or in a package's own below these.
func (r *Root) library(name string) (string, bool) {
	found := ""
	for p := range r.files {
		if path.Base(p) == name && strings.HasPrefix(p, "usr/lib") &&
			(found == "" || depth(p) < depth(found) || depth(p) == depth(found) && p < found) {
			found = p
		}
	}
	return found, found != ""
}

func depth(p string) int { return strings.Count(p, "/") }
