// Package images makes stand-ins for the images that upstream's conformance suite runs, under upstream's names: the
// registries that have the originals are not reachable. Programs of the suite are upstream's own, built from the
// version that conformance/upstream pins; the systems around them are Debian's instead of Alpine's.
//
//	agnhost        upstream's program; curl, dig, nc, ip and a shell from Debian. Both versions that the suite names
//	               have the same content and differ in a label, for their digests to differ.
//	glibc-dns-testing  the same without a program to run by itself
//	nautilus, kitten   agnhost as a web server with upstream's pages. Kitten names the base of upstream's image in
//	               its os-release, which a test of image volumes checks.
//	nonewprivs     upstream's program, setuid root
//	sample-apiserver   upstream's program of v1.29.2, as in the original
//	etcd           that of tools/etcd, of the same minor version as the original
//	busybox        built as its authors release it: Debian's shell drops variables whose names are not identifiers,
//	               and tests have such
//	nginx          Debian's
//	pause          that of node/ociimage
package images

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/node/ociimage"
	"github.com/keelson-dev/keelson/node/ociimage/debian"
)

// registry is the registry of upstream's test images.
const registry = "registry.k8s.io/e2e-test-images/"

// Dir is where the archives are kept: in their own directory in the repository's bin directory.
func Dir(k upstream.Kubernetes) string { return filepath.Join(k.Root(), "bin", "images-"+k.Version) }

// Build makes the archives of all stand-ins in dir, unless they exist, and returns their paths. It builds upstream's
// programs, which takes minutes the first time.
func Build(ctx context.Context, kubernetes upstream.Kubernetes, dir string, progress io.Writer) ([]string, error) {
	programs, err := build(ctx, kubernetes)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, archive := range []func(context.Context, string, io.Writer) (string, error){
		ociimage.Pause, busybox, programs.agnhost, programs.noNewPrivs, programs.sampleAPIServer, programs.etcd, nginx,
	} {
		path, err := archive(ctx, dir, progress)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// built are upstream's programs and sources.
type built struct{ version, source, agnhostPath, noNewPrivsPath, sampleAPIServerPath, etcdPath string }

func build(ctx context.Context, k upstream.Kubernetes) (b built, err error) {
	b.version = k.Version
	if b.source, err = k.Dir(ctx); err != nil {
		return built{}, err
	}
	if b.agnhostPath, err = k.Build(ctx, upstream.Agnhost); err != nil {
		return built{}, err
	}
	if b.noNewPrivsPath, err = k.Build(ctx, upstream.NoNewPrivs); err != nil {
		return built{}, err
	}
	if b.sampleAPIServerPath, err = k.Build(ctx, upstream.SampleAPIServer); err != nil {
		return built{}, err
	}
	b.etcdPath, err = k.Build(ctx, upstream.StaticEtcd)
	return b, err
}

func env() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

func (b built) agnhost(ctx context.Context, dir string, progress io.Writer) (string, error) {
	ports := map[string]struct{}{"80/tcp": {}, "8080/tcp": {}, "8081/tcp": {}, "9376/tcp": {}, "5000/tcp": {}}
	config := func(version string, args ...string) ociimage.Config {
		return ociimage.Config{
			ExposedPorts: ports, Env: env(), Entrypoint: []string{"/agnhost"}, Cmd: args, WorkingDir: "/",
			Labels: map[string]string{"image": version},
		}
	}
	named := func(name string, c ociimage.Config, extra func(*ociimage.Tree) error) ociimage.Image {
		return ociimage.Image{References: []string{registry + name}, Config: c, Extra: extra}
	}
	return ociimage.Build(ctx, dir, ociimage.Recipe{
		Name: "agnhost", Version: b.version + "-1",
		Images: []ociimage.Image{
			named("agnhost:2.66.1", config("agnhost:2.66.1", "pause"), nil),
			named("agnhost:2.55", config("agnhost:2.55", "pause"), nil),
			named("glibc-dns-testing:2.1.1", ociimage.Config{Env: env(), Cmd: []string{"bash"}}, nil),
			named("nautilus:1.8", config("nautilus:1.8", "test-webserver"), b.pages("nautilus", "")),
			named("kitten:1.8", config("kitten:1.8", "test-webserver"), b.pages("kitten", "NAME=\"Alpine Linux\"\nID=alpine\n")),
		},
		Fill: b.fillAgnhost,
	}, progress)
}

// pages returns a function that adds the pages of one of upstream's small web servers.
func (b built) pages(name, system string) func(*ociimage.Tree) error {
	return func(t *ociimage.Tree) error {
		html := filepath.Join(b.source, "test", "images", name, "html")
		entries, err := os.ReadDir(html)
		if err != nil {
			return err
		}
		for _, e := range entries {
			t.Copy(e.Name(), 0o644, filepath.Join(html, e.Name()))
		}
		if system != "" {
			t.File("etc/os-release", 0o644, []byte(system))
		}
		return nil
	}
}

func (b built) fillAgnhost(ctx context.Context, scratch string, t *ociimage.Tree) error {
	packages, err := debian.Unpack(ctx, scratch, packages()...)
	if err != nil {
		return err
	}
	ociimage.Base(t, []string{"user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh"},
		[]string{"user-defined-in-image:x:1000:", "group-defined-in-image:x:50000:user-defined-in-image"})
	paths := []string{
		"bin/bash", "bin/dash", "bin/grep", "bin/hostname", "bin/ip", "bin/nc.openbsd", "bin/sed", "bin/ss", "bin/tar",
		"usr/bin/curl", "usr/bin/dig", "usr/bin/getent", "usr/bin/host", "usr/bin/nslookup",
	}
	if err := ociimage.Add(t, packages, append(paths, ociimage.Coreutils()...)...); err != nil {
		return err
	}
	t.Symlink("usr/bin/sh", "dash")
	t.Symlink("usr/bin/nc", "nc.openbsd")
	t.Copy("agnhost", 0o755, b.agnhostPath)
	t.Symlink("agnhost-2", "agnhost")
	t.Dir("uploads", 0o755)
	t.Dir("home/user-defined-in-image", 0o755)
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		t.Copy(name, 0o644, filepath.Join(b.source, "test", "images", "agnhost", "porter", name))
	}
	return nil
}

// packages are the sources of the tools around agnhost, with their libraries.
func packages() []string {
	return []string{
		"bash", "bind9-dnsutils", "bind9-host", "coreutils", "curl", "dash", "grep", "hostname", "iproute2", "libc-bin", "netcat-openbsd", "sed", "tar",
		"bind9-libs", "libacl1", "libattr1", "libbpf1", "libbrotli1", "libbsd0", "libc6", "libcap2", "libcom-err2", "libcurl4", "libedit2",
		"libelf1", "libffi8", "libfstrm0", "libgcc-s1", "libgmp10", "libgnutls30", "libgssapi-krb5-2", "libhogweed6", "libicu72", "libidn2-0",
		"libjemalloc2", "libjson-c5", "libk5crypto3", "libkeyutils1", "libkrb5-3", "libkrb5support0", "libldap-2.5-0", "liblmdb0", "liblzma5",
		"libmaxminddb0", "libmd0", "libmnl0", "libnettle8", "libnghttp2-14", "libp11-kit0", "libpcre2-8-0", "libprotobuf-c1", "libpsl5",
		"libreadline8", "librtmp1", "libsasl2-2", "libselinux1", "libssh2-1", "libssl3", "libstdc++6", "libtasn1-6", "libtinfo6", "libtirpc3",
		"libunistring2", "libuv1", "libxml2", "libxtables12", "libzstd1", "zlib1g",
	}
}

func (b built) noNewPrivs(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return b.single(ctx, dir, progress, "nonewprivs", ociimage.Image{
		References: []string{registry + "nonewprivs:1.4"},
		Config:     ociimage.Config{Env: env(), Cmd: []string{"nnp"}},
		Extra: func(t *ociimage.Tree) error {
			t.Copy("usr/local/bin/nnp", 0o755|fs.ModeSetuid|fs.ModeSetgid, b.noNewPrivsPath)
			return nil
		},
	})
}

func (b built) sampleAPIServer(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return b.single(ctx, dir, progress, "sample-apiserver", ociimage.Image{
		References: []string{registry + "sample-apiserver:1.29.2"},
		Config:     ociimage.Config{Env: env(), Entrypoint: []string{"/sample-apiserver"}, WorkingDir: "/"},
		Extra: func(t *ociimage.Tree) error {
			t.Copy("sample-apiserver", 0o755, b.sampleAPIServerPath)
			return nil
		},
	})
}

func (b built) etcd(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return b.single(ctx, dir, progress, "etcd", ociimage.Image{
		References: []string{"registry.k8s.io/etcd:3.7.0-0"},
		Config:     ociimage.Config{Env: env(), Cmd: []string{"etcd"}, WorkingDir: "/"},
		Extra: func(t *ociimage.Tree) error {
			t.Copy("usr/local/bin/etcd", 0o755, b.etcdPath)
			return nil
		},
	})
}

// single makes the archive of an image with one program.
func (b built) single(ctx context.Context, dir string, progress io.Writer, name string, image ociimage.Image) (string, error) {
	return ociimage.Build(ctx, dir, ociimage.Recipe{
		Name: name, Version: b.version + "-1", Images: []ociimage.Image{image},
		Fill: func(_ context.Context, _ string, t *ociimage.Tree) error {
			ociimage.Base(t, nil, nil)
			return nil
		},
	}, progress)
}

// busybox has its usual configuration, and is linked statically like other images'.
func busybox(ctx context.Context, dir string, progress io.Writer) (string, error) {
	return ociimage.Build(ctx, dir, ociimage.Recipe{
		Name: "busybox", Version: "3",
		Images: []ociimage.Image{{
			References: []string{registry + "busybox:1.37.0-2"},
			Config:     ociimage.Config{Env: env(), Cmd: []string{"sh"}},
		}},
		Fill: func(ctx context.Context, scratch string, t *ociimage.Tree) error {
			source, err := debian.Source(ctx, scratch, "busybox")
			if err != nil {
				return err
			}
			if err := compile(ctx, source); err != nil {
				return err
			}
			program := filepath.Join(source, "busybox")
			names, err := exec.CommandContext(ctx, program, "--list").Output()
			if err != nil {
				return fmt.Errorf("list busybox's applets: %w", err)
			}
			const at = "usr/bin/busybox"
			ociimage.Base(t, nil, nil)
			t.Copy(at, 0o755, program)
			for name := range strings.FieldsSeq(string(names)) {
				if link := "usr/bin/" + name; link != at {
					t.Link(link, at)
				}
			}
			return nil
		},
	}, progress)
}

// compile builds busybox in its source directory, which takes a minute.
func compile(ctx context.Context, source string) error {
	if err := run(ctx, source, "make", "defconfig"); err != nil {
		return err
	}
	file := filepath.Join(source, ".config")
	config, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	// tc does not compile with the headers of newer kernels.
	changed := strings.NewReplacer("# CONFIG_STATIC is not set", "CONFIG_STATIC=y", "CONFIG_TC=y", "# CONFIG_TC is not set").Replace(string(config))
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		return err
	}
	return run(ctx, source, "make", "-j", strconv.Itoa(runtime.NumCPU()), "busybox")
}

func run(ctx context.Context, dir, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	// Timestamps in the program would make each build different.
	command.Env = append(os.Environ(), "KCONFIG_NOTIMESTAMP=1", "SOURCE_DATE_EPOCH=1767225600")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// nginx is the web server under the names of the suite, with different digests.
func nginx(ctx context.Context, dir string, progress io.Writer) (string, error) {
	var images []ociimage.Image
	for _, version := range []string{"1.27.0-2", "1.28.0-2"} {
		images = append(images, ociimage.Image{
			References: []string{registry + "nginx:" + version},
			Config: ociimage.Config{
				ExposedPorts: map[string]struct{}{"80/tcp": {}}, Env: env(), Cmd: []string{"nginx", "-g", "daemon off;"},
				StopSignal: "SIGQUIT", Labels: map[string]string{"image": "nginx:" + version},
			},
		})
	}
	return ociimage.Build(ctx, dir, ociimage.Recipe{Name: "nginx", Version: "2", Images: images, Fill: ociimage.FillNginx}, progress)
}
