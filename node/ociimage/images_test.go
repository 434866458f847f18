package ociimage_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/node/ociimage"
)

// require ends a test that cannot run here; where everything has to run that is a failure.
func require(t *testing.T, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// TestImages makes the images for real and runs what is in them in a root of their own.
func TestImages(t *testing.T) {
	require(t, runtime.GOOS == "linux" && os.Getuid() == 0, "needs Linux and root")
	for _, program := range []string{"apt-get", "dpkg-deb", "gcc", "chroot"} {
		_, err := exec.LookPath(program)
		require(t, err == nil, "needs "+program)
	}
	for name, c := range map[string]struct {
		make   func(context.Context, string, io.Writer) (string, error)
		script string // run by the shell of the image
		want   string
		most   int64 // bytes
	}{
		"busybox": {ociimage.Busybox, `id -u; echo a b | awk '{print $2}'; readlink /bin; stat -c %a /tmp; test /bin/ls -ef /bin/cat && echo linked`, "0\nb\nusr/bin\n1777\nlinked\n", 8 << 20},
		"nginx":   {ociimage.Nginx, `nginx -q -t && id -u nginx && tar cf - /etc/nginx/nginx.conf 2>/dev/null | tar tf - && cat /usr/share/nginx/html/index.html | grep -c 'Welcome to nginx!' && bash -c 'echo $0'`, "101\netc/nginx/nginx.conf\n2\nbash\n", 60 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			root, archive := unpackImage(t, c.make, c.most)
			command := exec.CommandContext(t.Context(), "chroot", root, "sh", "-c", c.script)
			var faults bytes.Buffer
			command.Stderr = &faults
			if out, err := command.Output(); err != nil || string(out) != c.want {
				t.Errorf("%v: %q, want %q\n%s", err, out, c.want, faults.String())
			}
			if names, err := ociimage.Digests(archive); err != nil || names["docker.io/library/"+name+":latest"] == "" {
				t.Errorf("%v, %v", names, err)
			}
		})
	}
	t.Run("pause", func(t *testing.T) {
		root, _ := unpackImage(t, ociimage.Pause, 2<<20)
		command := exec.CommandContext(t.Context(), filepath.Join(root, "pause"))
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		waitFor(t, command.Process.Pid)
		if err := command.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("after an interrupt: %v", err)
		}
	})
}

// waitFor returns once the process has its handler of interrupts: bit 1 of the mask of caught signals.
func waitFor(t *testing.T, pid int) {
	t.Helper()
	for {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "SigCgt:\t")
		mask, _, _ := strings.Cut(rest, "\n")
		if strings.HasSuffix(mask, "14002") {
			return
		}
	}
}

func unpackImage(t *testing.T, build func(context.Context, string, io.Writer) (string, error), most int64) (root, archive string) {
	t.Helper()
	archive, err := build(t.Context(), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(archive)
	if err != nil || info.Size() > most {
		t.Errorf("%d bytes, %v; at most %d", info.Size(), err, most)
	}
	root = t.TempDir()
	command := exec.CommandContext(t.Context(), "tar", "--extract", "--file", "-", "--directory", root)
	command.Stdin = bytes.NewReader(unpack(t, archive, t.TempDir()))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return root, archive
}
