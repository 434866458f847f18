package volume_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/fakeroot"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// optionsAt returns the options of the only mount at a path.
func optionsAt(t *testing.T, path string) string {
	t.Helper()
	list, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil || len(list) != 1 {
		t.Fatalf("mounts at %s: %v, %v", path, list, err)
	}
	return list[0].Options
}

// TestLocal: a directory of the node is mounted for each pod, once whatever happens to the kubelet, and nothing in it
// goes with the pods.
func TestLocal(t *testing.T) {
	needMounts(t)
	source := t.TempDir()
	write(t, "1", source, "file")
	s := newServer()
	s.bind(claimed("data", localSource(source)))
	v, dir := node(t, s, volume.Options{})
	first, second := named(pod(claimVolume("data", "data")), "a"), named(pod(claimVolume("data", "data")), "b")
	second.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	var paths []string
	for range 2 {
		paths = nil
		for _, p := range []*corev1.Pod{first, second} {
			prepare(t, v, p)
			prepare(t, v, p)
			at := mounts(t, v, request(p))["/data"]
			paths = append(paths, at.HostPath)
			if at.ReadOnly != (p == second) || read(t, at.HostPath, "file") != "1" {
				t.Errorf("%s has %+v", p.Name, at)
			}
		}
		if on := mountsBelow(t, dir); !slices.Equal(on, paths) {
			t.Fatalf("mounted: %v, want %v", on, paths)
		}
		v = reopen(t, dir, s, volume.Options{}) // the kubelet was killed
	}
	if want := filepath.Join(dir, "pods/uid-a/volumes/kubernetes.io~local-volume/pv-data"); paths[0] != want {
		t.Errorf("mounted at %s, want %s", paths[0], want)
	}
	write(t, "2", paths[0], "file")
	if err := os.WriteFile(filepath.Join(paths[1], "file"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("writing to what is read-only: %v", err)
	}
	if err := v.Release(t.Context(), first.UID); err != nil {
		t.Fatal(err)
	}
	if read(t, paths[1], "file") != "2" || len(mountsBelow(t, dir)) != 1 {
		t.Errorf("the other pod's volume: %v", mountsBelow(t, dir))
	}
	release(t, v, dir, second.UID)
	if read(t, source, "file") != "2" {
		t.Error("the data went with the pods")
	}
}

func TestLocalMountOptions(t *testing.T) {
	needMounts(t)
	for name, tt := range map[string]struct {
		options  []string
		has, err string
	}{
		"none":    {nil, "rw", ""},
		"several": {[]string{"noexec", "nosuid,nodev", "rw"}, "noexec", ""},
		"ro":      {[]string{"ro"}, "ro", ""},
		"bind":    {[]string{"bind"}, "rw", ""}, "defaults": {[]string{"defaults"}, "rw", ""},
		"suid": {[]string{"suid"}, "rw", ""}, "dev": {[]string{"dev"}, "rw", ""}, "exec": {[]string{"exec"}, "rw", ""},
		"nosuid": {[]string{"nosuid"}, "nosuid", ""}, "nodev": {[]string{"nodev"}, "nodev", ""},
		"unknown": {[]string{"noexec", "hard"}, "", `MountVolume.SetUp failed for volume "pv-data" : mount option "hard" is not supported for local directories`},
	} {
		t.Run(name, func(t *testing.T) {
			claim, pv := claimed("data", localSource(t.TempDir()))
			pv.Spec.MountOptions = tt.options
			s := newServer(claim, pv)
			v, dir := node(t, s, volume.Options{})
			p := pod(claimVolume("data", "data"))
			err := v.Prepare(t.Context(), p)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
			} else if got := optionsAt(t, v.Path(p, "data")); !slices.Contains(strings.Split(got, ","), tt.has) {
				t.Errorf("mounted with %s, want %s", got, tt.has)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestLocalKeepsFlags: a volume that is read-only has the other restrictions of its source, too.
func TestLocalKeepsFlags(t *testing.T) {
	needMounts(t)
	source := t.TempDir()
	if err := unix.Mount("tmpfs", source, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, ""); err != nil {
		t.Fatal(err)
	}
	defer detach(source)
	s := newServer()
	s.bind(claimed("data", localSource(source)))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"))
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	prepare(t, v, p)
	if got := optionsAt(t, mounts(t, v, request(p))["/data"].HostPath); got != "ro,nosuid,nodev,noatime" {
		t.Errorf("mounted with %s", got)
	}
	release(t, v, dir, p.UID)
}

// TestLocalGroup: a volume gets the group of the pod that mounts it first; others that share it do not change it.
func TestLocalGroup(t *testing.T) {
	needMounts(t)
	if id(t, 3000) == 0 {
		t.Skip("needs other groups than root's")
	}
	onRoot := corev1.FSGroupChangeOnRootMismatch
	source := t.TempDir()
	file := write(t, "1", source, "file")
	s := newServer()
	s.bind(claimed("data", localSource(source)))
	v, dir := node(t, s, volume.Options{})
	of := func(name string, group int64, policy *corev1.PodFSGroupChangePolicy) *corev1.Pod {
		p := named(pod(claimVolume("data", "data")), name)
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group, FSGroupChangePolicy: policy}
		return p
	}
	expect := func(what string, root, inside int) {
		t.Helper()
		_, r := owner(t, source)
		if _, f := owner(t, file); r != root || f != inside {
			t.Errorf("%s: the volume is of group %d, the file of %d; want %d and %d", what, r, f, root, inside)
		}
	}
	first, second := of("a", 3000, nil), of("b", 4000, nil)
	prepare(t, v, first)
	expect("first", 3000, 3000)
	if m := mode(t, source); m&os.ModeSetgid == 0 || m.Perm()&0o770 != 0o770 {
		t.Errorf("the volume has mode %v", m)
	}
	prepare(t, v, second)
	expect("shared", 3000, 3000)
	for _, p := range []*corev1.Pod{first, second} {
		if err := v.Release(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(file, -1, 5000); err != nil {
		t.Fatal(err)
	}
	for i, tt := range []struct {
		group        int64
		policy       *corev1.PodFSGroupChangePolicy
		readOnly     bool
		root, inside int
	}{
		{3000, &onRoot, false, 3000, 5000},
		{4000, nil, true, 3000, 5000},
		{4000, &onRoot, false, 4000, 4000},
	} {
		p := of(fmt.Sprint(i), tt.group, tt.policy)
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = tt.readOnly
		prepare(t, v, p)
		expect(fmt.Sprint("then ", i), tt.root, tt.inside)
		release(t, v, dir, p.UID)
	}
}

// TestLocalCrashes: killed between any two steps, a kubelet leaves what the next one completes, mounted once and as
// restricted as asked for.
func TestLocalCrashes(t *testing.T) {
	needMounts(t)
	for n := 0; ; n++ {
		s := newServer()
		s.bind(claimed("data", localSource(t.TempDir())))
		v, dir := node(t, s, volume.Options{})
		p := pod(claimVolume("data", "data"))
		p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		steps, crashed := 0, errors.New("crashed")
		v.SetStep(func(string, string) error {
			if steps++; steps > n {
				return crashed
			}
			return nil
		})
		err := v.Prepare(t.Context(), p)
		v = reopen(t, dir, s, volume.Options{})
		prepare(t, v, p)
		if on := mountsBelow(t, dir); len(on) != 1 || !strings.HasPrefix(optionsAt(t, on[0])+",", "ro,") {
			t.Errorf("after %d steps: mounted %v", n, on)
		}
		release(t, v, dir, p.UID)
		if err == nil {
			if n < 3 {
				t.Errorf("only %d steps", n)
			}
			return
		}
	}
}

// TestUnrestrictedMount: a mount that was left writable is not taken for one that is read-only.
func TestUnrestrictedMount(t *testing.T) {
	needMounts(t)
	s := newServer()
	s.bind(claimed("data", localSource(t.TempDir())))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"))
	prepare(t, v, p)
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	prepare(t, reopen(t, dir, s, volume.Options{}), p)
	if got := optionsAt(t, v.Path(p, "data")); !strings.HasPrefix(got+",", "ro,") {
		t.Errorf("mounted with %s", got)
	}
	release(t, v, dir, p.UID)
}

// TestRestrictedLater: a volume that is to become read-only while a process on the node writes to it is an error until
// that process has ended.
func TestRestrictedLater(t *testing.T) {
	needMounts(t)
	s := newServer()
	s.bind(claimed("data", localSource(t.TempDir())))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"))
	prepare(t, v, p)
	writer, err := os.Create(filepath.Join(v.Path(p, "data"), "file"))
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	v = reopen(t, dir, s, volume.Options{})
	if err := v.Prepare(t.Context(), p); !errors.Is(err, unix.EBUSY) || v.Path(p, "data") != "" {
		t.Errorf("while it is written to: %v, at %q", err, v.Path(p, "data"))
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	prepare(t, v, p)
	if got := optionsAt(t, v.Path(p, "data")); !strings.HasPrefix(got+",", "ro,") {
		t.Errorf("mounted with %s", got)
	}
	release(t, v, dir, p.UID)
}

// mounter mounts tmpfs, whatever it is to mount.
type mounter struct {
	calls []string
	err   error
	gone  bool // the directory, when it fails
}

func (m *mounter) Mount(_ context.Context, kind, source, dir string, options []string) error {
	m.calls = append(m.calls, kind+" "+source+" "+strings.Join(options, ","))
	if m.gone {
		_ = os.Remove(dir)
	}
	if m.err != nil {
		return m.err
	}
	return unix.Mount("test", dir, "tmpfs", 0, "")
}

// TestNFS: exports are mounted once, with the options of the volume, and unmounted with the pod.
func TestNFS(t *testing.T) {
	needMounts(t)
	m := &mounter{}
	claim, pv := claimed("data", corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "fd00::1", Path: "/export", ReadOnly: true}})
	pv.Spec.MountOptions = []string{"nfsvers=4.2", "hard"}
	s := newServer(claim, pv)
	v, dir := node(t, s, volume.Options{Mounter: m})
	own := vol("own", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.9", Path: "/", ReadOnly: true}})
	p := pod(claimVolume("data", "data"), own)
	m.err = errors.New("connection timed out")
	want := `MountVolume.SetUp failed for volume "pv-data" : connection timed out` + "\n" + `MountVolume.SetUp failed for volume "own" : connection timed out`
	if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~nfs")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	m.err, m.calls = nil, nil
	prepare(t, v, p)
	v = reopen(t, dir, s, volume.Options{Mounter: m, SELinux: true})
	prepare(t, v, p)
	if got := strings.Join(m.calls, "; "); got != "nfs [fd00::1]:/export nfsvers=4.2,hard; nfs 10.0.0.9:/ ro" {
		t.Errorf("mounted %s", got)
	}
	// A volume's own readOnly does not count if it was claimed: that of the reference to the claim does.
	if got := mounts(t, v, request(p)); got["/data"].ReadOnly || !got["/own"].ReadOnly || len(mountsBelow(t, dir)) != 2 {
		t.Errorf("%+v", got)
	}
	if at := mounts(t, v, request(p))["/own"]; at.HostPath != filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~nfs/own") || at.SELinuxRelabel {
		t.Errorf("%+v", at)
	}
	release(t, v, dir, p.UID)
	v, _ = node(t, s, volume.Options{Mounter: m, Rootless: true})
	if err := v.Prepare(t.Context(), pod(own)); !errors.Is(err, volume.ErrUnsupported) {
		t.Errorf("without root: %v", err)
	}
}

// TestLocalGroupOfRoot: what is in a volume is given to the pod's group, by its policy and the mode of the volume's root.
func TestLocalGroupOfRoot(t *testing.T) {
	needMounts(t)
	always, mismatch := corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch
	root := new(int64)
	for name, c := range map[string]struct {
		group    *int64
		policy   *corev1.PodFSGroupChangePolicy
		mode     fs.FileMode // of the volume
		readOnly bool
		want     fs.FileMode // of a file
	}{
		"without a policy": {root, nil, fs.ModeSetgid | 0o770, false, 0o660},
		"always":           {root, &always, fs.ModeSetgid | 0o770, false, 0o660},
		"as it must be":    {root, &mismatch, fs.ModeSetgid | 0o770, false, 0o600},
		"without the bit":  {root, &mismatch, 0o770, false, 0o660},
		"without the mode": {root, &mismatch, fs.ModeSetgid | 0o750, false, 0o660},
		"without a group":  {nil, &always, 0o770, false, 0o600},
		"only to be read":  {root, &always, 0o770, true, 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			source := scratch(t)
			file := write(t, "x", source, "file")
			if err := errors.Join(os.Chown(source, 0, 0), os.Chmod(source, c.mode), os.Chmod(file, 0o600)); err != nil {
				t.Fatal(err)
			}
			s := newServer()
			s.bind(claimed("data", localSource(source)))
			v, dir := node(t, s, volume.Options{})
			p := pod(claimVolume("data", "data"))
			p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = c.readOnly
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: c.group, FSGroupChangePolicy: c.policy}
			prepare(t, v, p)
			if got := mode(t, file); got != c.want {
				t.Errorf("the file has mode %v", got)
			}
			if err := os.Chmod(file, 0o600); err != nil {
				t.Fatal(err)
			}
			other := named(p.DeepCopy(), "other")
			prepare(t, v, other)
			if got := mode(t, file); got != 0o600 {
				t.Errorf("a pod that shares the volume changes the file's mode to %v", got)
			}
			if err := v.Release(t.Context(), other.UID); err != nil {
				t.Fatal(err)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestUnmountFails: a failure to unmount a volume, of whatever kind, is told, even if it does not last.
func TestUnmountFails(t *testing.T) {
	needMounts(t)
	export := vol("export", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/"}})
	for name, tt := range map[string]struct {
		volume corev1.Volume
		want   string
	}{
		"local":  {claimVolume("data", "data"), `unmounting volumes of pod uid-1: UnmountVolume.TearDown failed for volume "pv-data" : `},
		"nfs":    {export, `unmounting volumes of pod uid-1: UnmountVolume.TearDown failed for volume "export" : `},
		"memory": {emptyDirVolume("m", corev1.StorageMediumMemory), "unmounting volumes of pod uid-1: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.bind(claimed("data", localSource(t.TempDir())))
			v, dir := node(t, s, volume.Options{Mounter: &mounter{}})
			p := pod(tt.volume)
			prepare(t, v, p)
			failed := false
			v.SetStep(func(op, _ string) error {
				if failed || op != "unmount" {
					return nil
				}
				failed = true
				return errDead
			})
			if err := v.Release(t.Context(), p.UID); !errors.Is(err, errDead) || err.Error() != tt.want+errDead.Error() {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestUnmountForbidden: what the kernel says of a mount that it does not unmount is returned.
func TestUnmountForbidden(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
	prepare(t, v, p)
	parent := filepath.Dir(v.Path(p, "m"))
	if err := os.Chmod(parent, 0o600); err != nil {
		t.Fatal(err)
	}
	fakeroot.Unprivileged(t, func() {
		if err := v.Release(t.Context(), p.UID); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "unmount "+v.Path(p, "m")) {
			t.Errorf("got %v", err)
		}
	})
	if err := os.Chmod(parent, 0o750); err != nil {
		t.Fatal(err)
	}
	release(t, v, dir, p.UID)
}

// TestMountProgramIsRun: NFS is mounted by the node's own program, whose complaints are in the error.
func TestMountProgramIsRun(t *testing.T) {
	needMounts(t)
	export := func(readOnly bool) corev1.Volume {
		return vol("own", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/export", ReadOnly: readOnly}})
	}
	for name, tt := range map[string]struct {
		readOnly bool
		script   string
		args     string // before the directory
		err      string // likewise
	}{
		"writable":  {false, "", "-t nfs nas:/export ", ""},
		"read-only": {true, "", "-t nfs -o ro nas:/export ", ""},
		"refused": {true, "echo access denied; exit 32", "-t nfs -o ro nas:/export ",
			"MountVolume.SetUp failed for volume \"own\" : mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs -o ro nas:/export "},
	} {
		t.Run(name, func(t *testing.T) {
			programs := t.TempDir()
			for program, script := range map[string]string{"mount": "#!/bin/sh\necho \"$@\" >\"$0.args\"\n" + tt.script, "mount.nfs": "#!/bin/sh\n"} {
				if err := os.WriteFile(filepath.Join(programs, program), []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("PATH", programs)
			v, dir := node(t, nil, volume.Options{})
			p := pod(export(tt.readOnly))
			at := filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~nfs/own")
			err := v.Prepare(t.Context(), p)
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || err.Error() != tt.err+at+"\nOutput: access denied\n") {
				t.Errorf("got %v, want %s", err, tt.err)
			}
			if got := read(t, programs, "mount.args"); got != tt.args+at+"\n" {
				t.Errorf("run with %s, want %s", got, tt.args)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestMountProgram: what is missing on the node is named.
func TestMountProgram(t *testing.T) {
	needMounts(t)
	if _, err := os.Stat("/sbin/mount.nfs"); err == nil {
		t.Skip("this node has it")
	}
	v, dir := node(t, newServer(), volume.Options{})
	p := pod(vol("own", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: "/"}}))
	want := `MountVolume.SetUp failed for volume "own" : the node lacks mount.nfs, which mounts nfs volumes`
	if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	release(t, v, dir, p.UID)
}
