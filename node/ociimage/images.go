package ociimage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keelson-dev/keelson/node/ociimage/debian"
)

//go:embed files
var files embed.FS

// ErrNoCompiler: the host has no C compiler.
var ErrNoCompiler = errors.New("no C compiler: install gcc and libc6-dev")

// Pause makes the image of pod sandboxes, under the names that containerd and upstream use.
func Pause(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return Build(ctx, dir, Recipe{
		Name: "pause", Version: "1",
		Images: []Image{{
			References: []string{"registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:3.10.2"},
			Config:     Config{User: "65535:65535", Env: search(), Entrypoint: []string{"/pause"}, WorkingDir: "/"},
		}},
		Fill: func(ctx context.Context, scratch string, t *Tree) error {
			program, err := compile(ctx, scratch, "pause")
			t.Copy("pause", 0o755, program)
			return err
		},
	}, progress)
}

// Busybox makes an image with a shell and the common tools, all links to one program.
func Busybox(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return Build(ctx, dir, Recipe{
		Name: "busybox", Version: "1",
		Images: []Image{{
			References: []string{"docker.io/library/busybox:latest", "docker.io/library/busybox:1.36", "docker.io/library/busybox:1.37"},
			Config:     Config{Env: search(), Cmd: []string{"sh"}},
		}},
		Fill: fillBusybox,
	}, progress)
}

// Nginx makes an image of the web server with a welcome page on port 80, and with a shell and the basic tools for
// debugging.
func Nginx(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return Build(ctx, dir, Recipe{
		Name: "nginx", Version: "1",
		Images: []Image{{
			References: []string{"docker.io/library/nginx:latest"},
			Config: Config{
				ExposedPorts: map[string]struct{}{"80/tcp": {}}, Env: search(),
				Cmd: []string{"nginx", "-g", "daemon off;"}, StopSignal: "SIGQUIT",
			},
		}},
		Fill: FillNginx,
	}, progress)
}

// search is the usual environment of a container.
func search() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// compile builds one of the C programs of this package, linked statically.
func compile(ctx context.Context, scratch, name string) (string, error) {
	compiler, err := exec.LookPath("gcc")
	if err != nil {
		return "", ErrNoCompiler
	}
	source, err := files.ReadFile("files/" + name + ".c")
	if err != nil {
		return "", err
	}
	in, out := filepath.Join(scratch, name+".c"), filepath.Join(scratch, name)
	if err := os.WriteFile(in, source, 0o644); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, compiler, "-static", "-Os", "-s", "-Wall", "-o", out, in)
	if text, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", name, err, text)
	}
	return out, nil
}

func fillBusybox(ctx context.Context, scratch string, t *Tree) error {
	packages, err := debian.Unpack(ctx, scratch, "busybox", "libc6")
	if err != nil {
		return err
	}
	Base(t, nil, nil)
	const busybox = "usr/bin/busybox"
	if err := Add(t, packages, busybox); err != nil {
		return err
	}
	need, err := packages.Need(busybox)
	if err != nil {
		return err
	}
	applets, err := list(ctx, need, busybox)
	if err != nil {
		return err
	}
	for _, name := range applets {
		if at := "usr/bin/" + name; at != busybox && !t.Has(at) {
			t.Link(at, busybox)
		}
	}
	return nil
}

// list asks busybox for its applets. It runs with the loader and libraries of its packages, which the host need not
// have.
func list(ctx context.Context, need []debian.File, busybox string) ([]string, error) {
	program, loader, libraries := "", "", map[string]bool{}
	for _, f := range need {
		switch {
		case f.Path == busybox:
			program = f.Host
		case f.Host != "":
			libraries[filepath.Dir(f.Host)] = true
			if strings.HasPrefix(filepath.Base(f.Path), "ld-") {
				loader = f.Host
			}
		}
	}
	var dirs []string
	for d := range libraries {
		dirs = append(dirs, d)
	}
	out, err := exec.CommandContext(ctx, loader, "--library-path", strings.Join(dirs, ":"), program, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list busybox's applets: %w", err)
	}
	return strings.Fields(string(out)), nil
}

// FillNginx adds the web server and a small system around it to a tree.
func FillNginx(ctx context.Context, scratch string, t *Tree) error {
	packages, err := debian.Unpack(ctx, scratch,
		"nginx", "nginx-common", "bash", "coreutils", "dash", "grep", "hostname", "sed", "tar",
		"libacl1", "libattr1", "libc6", "libcrypt1", "libgmp10", "libpcre2-8-0", "libselinux1", "libssl3", "libtinfo6", "zlib1g")
	if err != nil {
		return err
	}
	Base(t, []string{"nginx:x:101:101:nginx:/nonexistent:/bin/false"}, []string{"nginx:x:101:"})
	programs := []string{"usr/sbin/nginx", "etc/nginx/mime.types", "usr/bin/bash", "usr/bin/dash", "usr/bin/grep", "usr/bin/hostname", "usr/bin/sed", "usr/bin/tar"}
	if err := Add(t, packages, append(programs, Coreutils()...)...); err != nil {
		return err
	}
	t.Symlink("usr/bin/sh", "dash")
	for at, name := range map[string]string{
		"etc/nginx/nginx.conf": "nginx.conf", "etc/nginx/conf.d/default.conf": "default.conf", "usr/share/nginx/html/index.html": "index.html",
	} {
		content, err := files.ReadFile("files/" + name)
		if err != nil {
			return err
		}
		t.File(at, 0o644, content)
	}
	t.Symlink("var/log/nginx/access.log", "/dev/stdout")
	t.Symlink("var/log/nginx/error.log", "/dev/stderr")
	for _, d := range []string{"var/lib/nginx", "usr/share/nginx"} { // the program was built to keep bodies and pages there
		t.Dir(d, 0o755)
	}
	return nil
}

// Coreutils are the paths of that package's tools for debugging pods.
func Coreutils() []string {
	var paths []string
	for name := range strings.FieldsSeq("base64 basename cat chmod chown cp cut date dd df dirname du echo env expr false head id ln ls md5sum " +
		"mkdir mkfifo mktemp mv nproc od printenv printf pwd readlink realpath rm rmdir seq sha256sum sleep sort split stat stty sync " +
		"tail tee test timeout touch tr true truncate tty uname uniq wc whoami yes") {
		paths = append(paths, "usr/bin/"+name)
	}
	return paths
}

// Base adds the basics of a small system to a tree: the directories, with /bin and the like in /usr, and root, nobody
// and further lines of /etc/passwd and /etc/group.
func Base(t *Tree, users, groups []string) {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		t.Symlink(name, "usr/"+name)
		t.Dir("usr/"+name, 0o755)
	}
	for _, name := range []string{"dev", "etc", "home", "proc", "run", "sys", "var/log"} {
		t.Dir(name, 0o755)
	}
	t.Dir("root", 0o700)
	t.Dir("tmp", 0o777|fs.ModeSticky)
	t.Dir("var/tmp", 0o777|fs.ModeSticky)
	t.Symlink("var/run", "/run")
	table := func(lines ...string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
	t.File("etc/passwd", 0o644, table(append([]string{"root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/bin/false"}, users...)...))
	t.File("etc/group", 0o644, table(append([]string{"root:x:0:", "tty:x:5:", "nogroup:x:65534:"}, groups...)...))
	t.File("etc/nsswitch.conf", 0o644, table("passwd: files", "group: files", "hosts: files dns"))
}

// Add adds files of packages and everything they need to a tree.
func Add(t *Tree, packages *debian.Root, paths ...string) error {
	need, err := packages.Need(paths...)
	if err != nil {
		return err
	}
	for _, f := range need {
		switch {
		case t.Has(f.Path):
		case f.Host == "":
			t.Symlink(f.Path, f.Target)
		default:
			t.Copy(f.Path, f.Mode, f.Host)
		}
	}
	return nil
}
