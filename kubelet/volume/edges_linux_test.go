package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// TestHostPathTypes: an existing path must be of the given type; a missing one is created if the type says so; existing
// paths are never changed.
func TestHostPathTypes(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, "data", at("file"))
	write(t, "data", at("dir/file"))
	if err := makePipe(at("pipe")); err != nil {
		t.Fatal(err)
	}
	old, err := os.Getwd() // socket names must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	t.Chdir(old)
	for _, link := range []string{"file", "dir"} {
		if err := os.Symlink(link, at("link-to-"+link)); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := node(t, nil, volume.Options{Logger: quiet()})
	for kind, want := range map[corev1.HostPathType]struct {
		good []string
		what string
	}{
		corev1.HostPathUnset:             {[]string{"file", "dir", "pipe", "socket", "link-to-file", "link-to-dir", "missing", "/dev/null"}, ""},
		corev1.HostPathDirectory:         {[]string{"dir", "link-to-dir"}, "directory"},
		corev1.HostPathDirectoryOrCreate: {[]string{"dir", "link-to-dir", "missing"}, "directory"},
		corev1.HostPathFile:              {[]string{"file", "link-to-file"}, "file"},
		corev1.HostPathFileOrCreate:      {[]string{"file", "link-to-file", "missing"}, "file"},
		corev1.HostPathSocket:            {[]string{"socket"}, "socket file"},
		corev1.HostPathCharDev:           {[]string{"/dev/null"}, "character device"},
		corev1.HostPathBlockDev:          {nil, "block device"},
	} {
		for _, name := range []string{"file", "dir", "pipe", "socket", "link-to-file", "link-to-dir", "missing", "/dev/null"} {
			path := name
			if !filepath.IsAbs(name) {
				path = at(name)
			}
			err := v.Prepare(t.Context(), pod(vol("h", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}})))
			if good := slices.Contains(want.good, name); good != (err == nil) || !good && !strings.Contains(err.Error(), "hostPath type check failed: "+path+" is not a "+want.what) {
				t.Errorf("%q, %s: %v", kind, name, err)
			}
			if read(t, at("file")) != "data" || read(t, at("dir/file")) != "data" {
				t.Fatalf("%q, %s: what was there is another", kind, name)
			}
			info, err := os.Stat(at("missing"))
			made := err == nil
			if created := name == "missing" && strings.HasSuffix(string(kind), "OrCreate"); created != made {
				t.Errorf("%q, %s: made %t", kind, name, made)
			}
			if made {
				if want := map[corev1.HostPathType]fs.FileMode{corev1.HostPathDirectoryOrCreate: fs.ModeDir | 0o755, corev1.HostPathFileOrCreate: 0o644}[kind]; info.Mode() != want {
					t.Errorf("%q made %v", kind, info.Mode())
				}
				if err := os.Remove(at("missing")); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	other := corev1.HostPathType("Other")
	if err := v.Prepare(t.Context(), pod(vol("h", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir, Type: &other}}))); err == nil || !strings.Contains(err.Error(), "Other is an invalid volume type") {
		t.Errorf("got %v", err)
	}
}

// TestMessagesThatAreKept: the newest ten message files of a container are kept, and as many empty ones.
func TestMessagesThatAreKept(t *testing.T) {
	v, dir := node(t, nil, volume.Options{Rootless: true})
	p := pod()
	messages := filepath.Join(dir, "pods/uid-1/containers/main")
	fill := func(n int, kinds ...string) {
		for i := range n {
			for _, prefix := range kinds {
				file := write(t, map[string]string{"full": "x"}[prefix], messages, fmt.Sprintf("%s-%02d", prefix, i))
				when := time.Unix(int64(1000+i), 0)
				if err := os.Chtimes(file, when, when); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fill(10, "full")
	if _, err := v.Mounts(t.Context(), request(p)); err != nil || exists(filepath.Join(messages, "full-00")) || !exists(filepath.Join(messages, "full-01")) {
		t.Errorf("the oldest of ten does not make room for the new one: %v", err)
	}
	if err := os.RemoveAll(messages); err != nil {
		t.Fatal(err)
	}
	fill(14, "full", "empty")
	v.SetStep(func(op, _ string) error {
		if op == "remove" {
			return errDead
		}
		return nil
	})
	if _, err := v.Mounts(t.Context(), request(p)); !errors.Is(err, errDead) {
		t.Errorf("got %v", err)
	}
	v.SetStep(nil)
	if _, err := v.Mounts(t.Context(), request(p)); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	list, err := os.ReadDir(messages)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.Contains(e.Name(), "-") { // the new one has another name
			got = append(got, e.Name())
		}
	}
	for _, prefix := range []string{"empty", "full"} {
		for i := range 9 {
			want = append(want, fmt.Sprintf("%s-%02d", prefix, i+5))
		}
	}
	if !slices.Equal(got, want) || len(list) != len(want)+1 {
		t.Errorf("%d are left: %v", len(list), got)
	}
	if err := os.Chmod(messages, 0o300); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if _, err := v.Mounts(t.Context(), request(p)); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("messages that cannot be listed: %v", err)
		}
	})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Mounts(over, request(pod(emptyDirVolume("e", "")))); !errors.Is(err, context.Canceled) {
		t.Errorf("mounts for nobody: %v", err)
	}
	release(t, v, dir, p.UID)
}

// lives issues tokens with the requested lifetime.
type lives struct{ *server }

func (l lives) Token(ctx context.Context, ns, account string, r authenticationv1.TokenRequestSpec) (authenticationv1.TokenRequestStatus, error) {
	l.mu.Lock()
	l.life = time.Duration(*r.ExpirationSeconds) * time.Second
	l.mu.Unlock()
	return l.server.Token(ctx, ns, account, r)
}

// TestNextRefresh: the token that must be replaced first decides.
func TestNextRefresh(t *testing.T) {
	dir := scratch(t)
	s := newServer()
	v, err := volume.New(dir, volume.Sources{Objects: s, Tokens: lives{s}}, volume.Options{Rootless: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	var sources []corev1.VolumeProjection
	for i := range 12 {
		life := int64(3600 * (1 + (i+5)%12))
		sources = append(sources, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: fmt.Sprint(i), ExpirationSeconds: &life}})
	}
	p := pod(vol("tokens", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}}))
	if got := v.NextRefresh(p.UID); !got.IsZero() {
		t.Errorf("before there is a token: %s", got)
	}
	prepare(t, v, p)
	for range 5 {
		if left := time.Until(v.NextRefresh(p.UID)); left <= 0 || left > time.Hour {
			t.Errorf("the next is due in %s", left)
		}
	}
	release(t, v, dir, p.UID)
}

// TestTokensBelongToTheUser: private files are owned by the pod's user, if there is one.
func TestTokensBelongToTheUser(t *testing.T) {
	needMounts(t)
	for _, user := range []*int64{nil, new(int64(os.Getuid()))} {
		v, dir := node(t, newServer(rootCA()), volume.Options{})
		p := pod(apiAccess())
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: user}
		given := map[string]bool{}
		v.SetStep(func(op, path string) error {
			if op == "chown" {
				given[filepath.Base(path)] = true
			}
			return nil
		})
		prepare(t, v, p)
		if given["token"] != (user != nil) || given["ca.crt"] {
			t.Errorf("given away: %v", given)
		}
		if want := map[bool]fs.FileMode{true: 0o600, false: 0o644}[user != nil]; mode(t, v.Path(p, "kube-api-access-x"), "token").Perm() != want {
			t.Errorf("a token has mode %v", mode(t, v.Path(p, "kube-api-access-x"), "token"))
		}
		release(t, v, dir, p.UID)
	}
}

// TestSubPathThatCannotBeMade: the error says so without details.
func TestSubPathThatCannotBeMade(t *testing.T) {
	needMounts(t)
	host := t.TempDir()
	write(t, "x", host, "file")
	for subPath, want := range map[string]string{"a/new": "create subPath directory", "file/below": "prepare subPath"} {
		v, dir := node(t, nil, volume.Options{Logger: quiet()})
		p := pod(hostPathVolume("h", host))
		p.Spec.Containers[0].VolumeMounts[0].SubPath = subPath
		v.SetStep(func(op, path string) error {
			if op == "mkdir" && strings.HasSuffix(path, "/new") {
				return errDead
			}
			return nil
		})
		prepare(t, v, p)
		if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != fmt.Sprintf("failed to %s for volumeMount \"h\" of container \"main\"", want) {
			t.Errorf("%s: %v", subPath, err)
		}
		release(t, v, dir, p.UID)
	}
}

// ended is a container that has ended and left its message in a mount.
func ended(message cri.Mount) cri.ContainerStatus {
	return cri.ContainerStatus{
		Container: cri.Container{State: cri.ContainerExited, Annotations: map[string]string{"io.kubernetes.container.terminationMessagePath": message.ContainerPath}},
		Mounts:    []cri.Mount{message},
	}
}

// TestNothingStaysOpen: opening files in volumes, mounting sub-paths and reading messages leaks no file descriptors.
func TestNothingStaysOpen(t *testing.T) {
	needMounts(t)
	host := t.TempDir()
	write(t, "x", host, "file")
	write(t, "x", host, "dir/file")
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	p := pod(hostPathVolume("h", host))
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "a/b/c"
	prepare(t, v, p)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close them, too
	before := entries(t, "/proc/self/fd")
	for range 50 {
		for file, good := range map[string]bool{"file": true, "dir": false, "missing": false} {
			f, err := v.Open(p, "h", file)
			if (err == nil) != good {
				t.Fatal(err)
			}
			if good {
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		got := mounts(t, v, request(p))
		if said := volume.TerminationMessage(ended(got["/dev/termination-log"]), nil); said != "" {
			t.Fatal(said)
		}
		if err := v.Release(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(host, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if after := entries(t, "/proc/self/fd"); after > before+20 {
		t.Errorf("%d files are open, %d were", after, before)
	}
	release(t, v, dir, p.UID)
}

// TestMountsWithoutEnd: unmounting gives up if something is mounted again each time.
func TestMountsWithoutEnd(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
	prepare(t, v, p)
	v.SetStep(func(op, path string) error {
		if op != "unmount" {
			return nil
		}
		return unix.Mount("tmpfs", path, "tmpfs", 0, "")
	})
	if err := v.Release(t.Context(), p.UID); err == nil || !strings.Contains(err.Error(), "still mounted after 16 rounds") {
		t.Errorf("got %v", err)
	}
	v.SetStep(nil)
	release(t, v, dir, p.UID)
}

// TestWhoUsesAMount: a mount used by a process is an error, a nested mount is not.
func TestWhoUsesAMount(t *testing.T) {
	needMounts(t)
	for name, test := range map[string]struct {
		use    func(t *testing.T, dir string)
		warned int
	}{
		"nobody": {func(*testing.T, string) {}, 0},
		"a process": {func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, "open"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
		}, 1},
		"a mount": {func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", filepath.Join(dir, "in"), "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			v, dir := node(t, nil, volume.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
			prepare(t, v, p)
			test.use(t, v.Path(p, "m"))
			release(t, v, dir, p.UID)
			if got := strings.Count(log.String(), "a mount is in use by a process on the node"); got != test.warned {
				t.Errorf("logged %s", log.String())
			}
		})
	}
}

// TestMemoryThatCannotBeLookedAt: a volume whose state cannot be determined is not created anew.
func TestMemoryThatCannotBeLookedAt(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
	prepare(t, v, p)
	at := v.Path(p, "m")
	detach(at)
	if err := os.RemoveAll(filepath.Dir(at)); err != nil {
		t.Fatal(err)
	}
	write(t, "a file", filepath.Dir(at))
	if err := v.Prepare(t.Context(), p); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("got %v", err)
	}
	release(t, v, dir, p.UID)
}
