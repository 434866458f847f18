package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

func TestEmptyDir(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("disk", ""), emptyDirVolume("memory", corev1.StorageMediumMemory), corev1.Volume{Name: "none"})
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(id(t, 3000)))}
	p.Spec.Volumes = append(p.Spec.Volumes, emptyDirVolume("unused", ""))
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	for _, at := range []string{"/disk", "/memory", "/none"} {
		if m := mode(t, got[at].HostPath); m.Perm() != 0o777 || m&os.ModeSetgid == 0 || got[at].ReadOnly {
			t.Errorf("%s: %v", at, m)
		}
		write(t, "kept", got[at].HostPath, "file")
		if _, gid := owner(t, filepath.Join(got[at].HostPath, "file")); gid != id(t, 3000) {
			t.Errorf("what is made in %s belongs to group %d", at, gid)
		}
		if err := os.Chmod(got[at].HostPath, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if on := mountsBelow(t, dir); len(on) != 1 || on[0] != got["/memory"].HostPath {
		t.Errorf("mounted: %v", on)
	}
	v = reopen(t, dir, nil, volume.Options{})
	prepare(t, v, p)
	for _, at := range []string{"/disk", "/memory", "/none"} {
		if read(t, got[at].HostPath, "file") != "kept" || mode(t, got[at].HostPath).Perm() != 0o700 {
			t.Errorf("%s is not as its pod left it", at)
		}
	}
	detach(got["/memory"].HostPath) // the node was rebooted
	prepare(t, v, p)
	if on := mountsBelow(t, dir); len(on) != 1 || mode(t, got["/memory"].HostPath).Perm() != 0o777 {
		t.Errorf("memory is not back: %v", on)
	}
	if _, err := os.Stat(filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~empty-dir/unused")); err == nil {
		t.Error("a volume that nobody mounts was made")
	}
	release(t, v, dir, p.UID)
}

func TestMemorySize(t *testing.T) {
	needMounts(t)
	allocatable := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	limits := func(m string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(m)}}
	}
	always := new(corev1.ContainerRestartPolicyAlways)
	for name, c := range map[string]struct {
		limit      string
		containers []corev1.Container
		inits      []corev1.Container
		podLimit   string
		want       int64 // Mi
	}{
		"node":       {"", []corev1.Container{{}}, nil, "", 64},
		"volume":     {"10Mi", []corev1.Container{{}}, nil, "", 10},
		"tooLarge":   {"100Mi", []corev1.Container{{}}, nil, "", 64},
		"containers": {"", []corev1.Container{{Resources: limits("8Mi")}, {Resources: limits("8Mi")}}, nil, "", 16},
		"oneWithout": {"", []corev1.Container{{Resources: limits("8Mi")}, {}}, nil, "", 64},
		"init":       {"", []corev1.Container{{Resources: limits("8Mi")}}, []corev1.Container{{Resources: limits("20Mi")}}, "", 20},
		"sidecar": {"", []corev1.Container{{Resources: limits("8Mi")}}, []corev1.Container{
			{Resources: limits("4Mi"), RestartPolicy: always}, {Resources: limits("20Mi")},
		}, "", 24},
		"pod":         {"", []corev1.Container{{}}, nil, "12Mi", 12},
		"smaller":     {"4Mi", []corev1.Container{{}}, nil, "12Mi", 4},
		"initWithout": {"", []corev1.Container{{Resources: limits("8Mi")}}, []corev1.Container{{}}, "", 64},
		"podWithout":  {"", []corev1.Container{{Resources: limits("8Mi")}}, nil, "0", 8},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, nil, volume.Options{Allocatable: func() corev1.ResourceList { return allocatable }})
			p := pod(emptyDirVolume("m", corev1.StorageMediumMemory))
			if c.limit != "" {
				p.Spec.Volumes[0].EmptyDir.SizeLimit = new(resource.MustParse(c.limit))
			}
			if c.podLimit != "" {
				p.Spec.Resources = new(limits(c.podLimit))
			}
			c.containers[0].Name, c.containers[0].VolumeMounts = "main", p.Spec.Containers[0].VolumeMounts
			p.Spec.Containers, p.Spec.InitContainers = c.containers, c.inits
			prepare(t, v, p)
			var st unix.Statfs_t
			if err := unix.Statfs(mounts(t, v, request(p))["/m"].HostPath, &st); err != nil {
				t.Fatal(err)
			}
			if size := int64(st.Blocks) * st.Bsize >> 20; st.Type != unix.TMPFS_MAGIC || size != c.want {
				t.Errorf("%d Mi, want %d (type %x)", size, c.want, st.Type)
			}
			release(t, v, dir, p.UID)
		})
	}
}

func TestHostPathsAreMadeAndStay(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	kind := func(k corev1.HostPathType) *corev1.HostPathType { return &k }
	host := t.TempDir()
	p := pod(hostPathVolume("d", host+"/a/b"), hostPathVolume("f", host+"/f"), hostPathVolume("any", host+"/nothing"), hostPathVolume("null", "/dev/null"))
	p.Spec.Volumes[0].HostPath.Type = kind(corev1.HostPathDirectoryOrCreate)
	p.Spec.Volumes[1].HostPath.Type = kind(corev1.HostPathFileOrCreate)
	p.Spec.Volumes[3].HostPath.Type = kind(corev1.HostPathCharDev)
	p.Spec.Containers[0].VolumeMounts[1].ReadOnly = true
	for range 2 {
		prepare(t, v, p)
	}
	got := mounts(t, v, request(p))
	if m := mode(t, host, "a/b"); m != os.ModeDir|0o755 || got["/d"].HostPath != host+"/a/b" {
		t.Errorf("%v at %s", m, got["/d"].HostPath)
	}
	if m := mode(t, host, "f"); m != 0o644 || !got["/f"].ReadOnly {
		t.Errorf("%v %+v", m, got["/f"])
	}
	if _, err := os.Lstat(host + "/nothing"); err == nil {
		t.Error("a path of any type was made")
	}
	release(t, v, dir, p.UID)
	if entries, _ := os.ReadDir(host); len(entries) != 2 {
		t.Errorf("left on the host: %v", entries)
	}
}

// subPathPod mounts sub-paths of a volume at /0, /1 ….
func subPathPod(source corev1.Volume, subPaths ...string) *corev1.Pod {
	p := pod(source)
	p.Spec.Containers[0].VolumeMounts = nil
	for i, s := range subPaths {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: source.Name, MountPath: fmt.Sprint("/", i), SubPath: s,
		})
	}
	return p
}

func TestSubPaths(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(config("c", "key", "value")), volume.Options{})
	host := t.TempDir()
	write(t, "outside", host, "secret")
	root := filepath.Join(host, "root")
	write(t, "inside", root, "file")
	write(t, "deep", root, "a/b/file")
	if err := os.Chmod(root, 0o2771|os.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"in": "a/b", "up": "a/../file", "out": "../secret", "abs": host + "/secret", "dangling": "nowhere", "dirout": ".."} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	p := subPathPod(hostPathVolume("h", root), "file", "a/b", "in", "up", "new/dir", "in/made", ".", "a/./b/")
	prepare(t, v, p)
	for range 2 { // again for the next instance of the container
		got := mounts(t, v, request(p))
		for at, want := range map[string]string{"/0": "inside", "/1/file": "deep", "/2/file": "deep", "/3": "inside", "/6/file": "inside", "/7/file": "deep"} {
			top, rest, _ := strings.Cut(at[1:], "/")
			if data := read(t, got["/"+top].HostPath, rest); data != want {
				t.Errorf("%s: %q, want %q", at, data, want)
			}
		}
		if got["/6"].HostPath != root {
			t.Errorf("all of the volume is at %s", got["/6"].HostPath)
		}
	}
	for _, made := range []string{"new", "new/dir", "a/b/made"} {
		if m := mode(t, root, made); m != os.ModeDir|os.ModeSetgid|0o771 {
			t.Errorf("%s: %v", made, m)
		}
	}
	if on := mountsBelow(t, dir); len(on) != 7 {
		t.Errorf("mounted: %v", on)
	}
	for _, bad := range []string{"out", "abs", "dirout/secret", "dirout/root/file", "dangling", "file/x", "dirout/new"} {
		q := subPathPod(hostPathVolume("h", root), bad)
		_, err := v.Mounts(t.Context(), request(q))
		if err == nil || strings.Contains(err.Error(), host) || !strings.Contains(err.Error(), `for volumeMount "h" of container "main"`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for bad, want := range map[string]string{
		"/abs": "error SubPath `/abs` must not be an absolute path", "a/../..": "unable to provision SubPath `a/../..`: must not contain '..'",
	} {
		if _, err := v.Mounts(t.Context(), request(subPathPod(hostPathVolume("h", root), bad))); err == nil || err.Error() != want {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(host, "new")); err == nil {
		t.Error("a directory was made outside of the volume")
	}
	release(t, v, dir, p.UID)
	if read(t, host, "secret") != "outside" || read(t, root, "a/b/file") != "deep" {
		t.Error("data of the host is gone")
	}
}

func TestSubPathExpr(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{})
	p := pod(emptyDirVolume("e", ""))
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "e", MountPath: "/e", SubPathExpr: "logs/$(POD)/$$(POD)"}}
	r := request(p)
	prepare(t, v, p)
	r.Env = []cri.EnvVar{{Name: "POD", Value: "web-1"}}
	mounts(t, v, r)
	if _, err := os.Stat(filepath.Join(v.Path(p, "e"), "logs/web-1/$(POD)")); err != nil {
		t.Error(err)
	}
	p.Spec.Containers[0].VolumeMounts[0].SubPathExpr = "$(B)/$(A)/$(EMPTY)"
	r.Env = []cri.EnvVar{{Name: "EMPTY"}}
	if _, err := v.Mounts(t.Context(), r); err == nil || err.Error() != "missing value for A, B, EMPTY" {
		t.Errorf("got %v", err)
	}
	release(t, v, dir, p.UID)
}

// TestSubPathOutlivesTheVolumesTricks: a container's sub-path keeps pointing to the same file.
func TestSubPathOutlivesTheVolumesTricks(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(config("c", "key", "one")), volume.Options{})
	host := write(t, "secret", t.TempDir(), "file")
	p := pod(emptyDirVolume("e", ""), configMapVolume("c"))
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "e", MountPath: "/e", SubPath: "dir"}, {Name: "c", MountPath: "/c", SubPath: "key"}}
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	write(t, "mine", got["/e"].HostPath, "file")
	inside := v.Path(p, "e")
	if err := os.Rename(inside+"/dir", inside+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(host), inside+"/dir"); err != nil {
		t.Fatal(err)
	}
	if read(t, got["/e"].HostPath, "file") != "mine" {
		t.Error("the sub-path leads elsewhere now")
	}
	if _, err := v.Mounts(t.Context(), request(p)); err == nil {
		t.Error("the next instance would see the host")
	}
	if err := os.Remove(inside + "/dir"); err != nil {
		t.Fatal(err)
	}
	got = mounts(t, v, request(p)) // made anew: the old one is replaced
	if entries, _ := os.ReadDir(got["/e"].HostPath); len(entries) != 0 || mode(t, inside, "dir") != os.ModeDir|0o777 {
		t.Errorf("found %v", entries)
	}
	if err := os.RemoveAll(inside + "/dir"); err != nil {
		t.Fatal(err)
	}
	write(t, "a file", inside, "dir")
	got = mounts(t, v, request(p)) // another type
	if read(t, got["/e"].HostPath) != "a file" {
		t.Error("a directory did not become a file")
	}
	release(t, v, dir, p.UID)
	if read(t, host) != "secret" {
		t.Error("the host's file is gone")
	}
}

// TestSubPathRace has a container constantly exchange a directory for a link to the host.
func TestSubPathRace(t *testing.T) {
	needMounts(t)
	v, dir := node(t, nil, volume.Options{Logger: quiet()})
	host := t.TempDir()
	write(t, "secret", host, "x/marker")
	p := subPathPod(emptyDirVolume("e", ""), "a/x", "a/x/new")
	prepare(t, v, p)
	inside := v.Path(p, "e")
	write(t, "", inside, "a/x/own")
	if err := os.Symlink(host, inside+"/evil"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, inside+"/a", unix.AT_FDCWD, inside+"/evil", unix.RENAME_EXCHANGE)
			}
		}
	})
	good, bad := 0, 0
	for range 300 {
		list, err := v.Mounts(t.Context(), request(p))
		if err != nil {
			bad++
			continue
		}
		good++
		for _, m := range list[:2] {
			if _, err := os.Stat(filepath.Join(m.HostPath, "marker")); err == nil {
				t.Error("a container would see the host")
			}
		}
	}
	close(stop)
	swapping.Wait()
	t.Logf("%d times let in, %d times refused", good, bad)
	if entries, _ := os.ReadDir(filepath.Join(host, "x")); len(entries) != 1 {
		t.Errorf("made on the host: %v", entries)
	}
	release(t, v, dir, p.UID)
	if read(t, host, "x/marker") != "secret" {
		t.Error("data of the host is gone")
	}
}

func TestHugePages(t *testing.T) {
	needMounts(t)
	const magic = 0x958458f6
	huge := func(sizes ...string) corev1.ResourceList {
		list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		for _, s := range sizes {
			list[corev1.ResourceName("hugepages-"+s)] = resource.MustParse("4Mi")
		}
		return list
	}
	for name, c := range map[string]struct {
		medium    corev1.StorageMedium
		main      corev1.ResourceList
		init, pod corev1.ResourceList
		want      string
	}{
		"any":      {medium: "HugePages", main: huge("2Mi")},
		"size":     {medium: "HugePages-2Mi", main: huge("2Mi", "1Gi")},
		"init":     {medium: "HugePages-2Mi", init: huge("2Mi")},
		"the same": {medium: "HugePages", main: huge("2Mi"), init: huge("2Mi"), pod: huge("2Mi")},
		"pod":      {medium: "HugePages", pod: huge("2Mi")},
		"several":  {medium: "HugePages", main: huge("2Mi"), init: huge("1Gi"), want: "medium: HugePages can't be used if container requests multiple huge page sizes"},
		"another":  {medium: "HugePages-2Mi", main: huge("1Gi"), want: "medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages"},
		"none":     {medium: "HugePages", main: huge(), want: "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		"nonsense": {medium: "HugePages-x", main: huge("2Mi"), want: `storage medium "HugePages-x": `},
		"badName":  {medium: "HugePages", main: corev1.ResourceList{"hugepages-x": resource.MustParse("1")}, want: `resource "hugepages-x": `},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, nil, volume.Options{})
			p := pod(emptyDirVolume("h", c.medium))
			p.Spec.Containers[0].Resources.Requests = c.main
			p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: c.init}}}
			if c.pod != nil {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: c.pod}
			}
			err := v.Prepare(t.Context(), p)
			if c.want != "" {
				if failed := volume.Failures(err); len(failed) != 1 || !strings.HasPrefix(failed[0].Err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
			} else if errors.Is(err, unix.EPERM) && id(t, 1) == 0 {
				t.Log("only the machine's own root mounts huge pages")
			} else if err != nil {
				t.Error(err)
			} else {
				var st unix.Statfs_t
				if err := unix.Statfs(v.Path(p, "h"), &st); err != nil || uint32(st.Type) != magic || st.Bsize != 2<<20 {
					t.Errorf("type %x, pages of %d, %v", st.Type, st.Bsize, err)
				}
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestGroups: the group can read all files of a volume, which are otherwise unchanged.
func TestGroups(t *testing.T) {
	needMounts(t)
	v, dir := node(t, newServer(config("c", "a", "1", "b", "2")), volume.Options{})
	p := pod(configMapVolume("c", corev1.KeyToPath{Key: "a", Path: "a", Mode: new(int32(0o4700))}, corev1.KeyToPath{Key: "b", Path: "d/b", Mode: new(int32(0o400))}))
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(id(t, 77)))}
	prepare(t, v, p)
	root := v.Path(p, "c")
	for file, want := range map[string]os.FileMode{
		"a": os.ModeSetuid | 0o740, "d/b": 0o440, "d": os.ModeDir | os.ModeSetgid | 0o755, "..data": os.ModeDir | os.ModeSetgid | 0o755, ".": os.ModeDir | os.ModeSetgid | 0o777,
	} {
		at, err := filepath.EvalSymlinks(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		if _, gid := owner(t, at); gid != id(t, 77) || mode(t, at) != want {
			t.Errorf("%s: group %d, %v, want %v", file, gid, mode(t, at), want)
		}
	}
	release(t, v, dir, p.UID)
}

// TestContentThatRunsTogether: two contents differ even if their concatenated names and values are equal.
func TestContentThatRunsTogether(t *testing.T) {
	s := newServer(config("c", "a", "bc"))
	v, dir := node(t, s, volume.Options{Rootless: true})
	p := pod(configMapVolume("c"))
	for _, pairs := range [][]string{{"a", "bc"}, {"ab", "c"}, {"a", "", "abc", ""}, {"a", "abc"}, {"a", "b", "c", ""}, {"a", "", "bc", ""}} {
		s.put(config("c", pairs...))
		prepare(t, v, p)
		for i := 0; i < len(pairs); i += 2 {
			if got := read(t, v.Path(p, "c"), pairs[i]); got != pairs[i+1] {
				t.Errorf("%v: %s is %q", pairs, pairs[i], got)
			}
		}
	}
	release(t, v, dir, p.UID)
}
