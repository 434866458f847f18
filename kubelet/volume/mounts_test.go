package volume_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

func TestMounts(t *testing.T) {
	recursive := func(mode corev1.RecursiveReadOnlyMode) *corev1.RecursiveReadOnlyMode { return &mode }
	spread := func(mode corev1.MountPropagationMode) *corev1.MountPropagationMode { return &mode }
	for name, c := range map[string]struct {
		mount    corev1.VolumeMount
		possible bool
		want     cri.Mount // without the paths
		err      string
	}{
		"plain":         {mount: corev1.VolumeMount{}},
		"as it is":      {mount: corev1.VolumeMount{MountPath: "/a//b/"}, want: cri.Mount{ContainerPath: "/a//b/"}},
		"readOnly":      {mount: corev1.VolumeMount{ReadOnly: true}, want: cri.Mount{ReadOnly: true}},
		"none":          {mount: corev1.VolumeMount{MountPropagation: spread(corev1.MountPropagationNone)}},
		"fromHost":      {mount: corev1.VolumeMount{MountPropagation: spread(corev1.MountPropagationHostToContainer)}, want: cri.Mount{Propagation: cri.PropagationHostToContainer}},
		"bothWays":      {mount: corev1.VolumeMount{MountPropagation: spread(corev1.MountPropagationBidirectional)}, want: cri.Mount{Propagation: cri.PropagationBidirectional}},
		"unknown":       {mount: corev1.VolumeMount{MountPropagation: spread("Up")}, err: `invalid MountPropagation mode: "Up"`},
		"disabled":      {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyDisabled)}, possible: true, want: cri.Mount{ReadOnly: true}},
		"ifPossible":    {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyIfPossible)}, possible: true, want: cri.Mount{ReadOnly: true, RecursiveReadOnly: true}},
		"ifNotPossible": {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyIfPossible)}, want: cri.Mount{ReadOnly: true}},
		"enabled":       {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyEnabled)}, possible: true, want: cri.Mount{ReadOnly: true, RecursiveReadOnly: true}},
		"unsupported": {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyEnabled)},
			err: `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime`},
		"writable": {mount: corev1.VolumeMount{RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyEnabled)}, possible: true,
			err: `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not read-only`},
		"spreading": {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive(corev1.RecursiveReadOnlyEnabled), MountPropagation: spread(corev1.MountPropagationHostToContainer)},
			possible: true, err: `failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`},
		"nonsense": {mount: corev1.VolumeMount{ReadOnly: true, RecursiveReadOnly: recursive("Maybe")}, err: `failed to resolve recursive read-only mode: unknown recursive read-only mode "Maybe"`},
		"missing":  {mount: corev1.VolumeMount{Name: "other"}, err: `cannot find volume "other" to mount into container "main"`},
		"claim":    {mount: corev1.VolumeMount{Name: "claim"}, err: `cannot find volume "claim" to mount into container "main"`},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, nil, volume.Options{RecursiveReadOnly: func(*corev1.Pod) bool { return c.possible }, SELinux: true})
			p := pod(emptyDirVolume("v", ""))
			prepare(t, v, p)
			if c.mount.Name == "" {
				c.mount.Name = "v"
			}
			p.Spec.Volumes = append(p.Spec.Volumes, vol("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}))
			if c.mount.MountPath == "" {
				c.mount.MountPath, c.want.ContainerPath = "relative", "/relative"
			}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{c.mount}
			list, err := v.Mounts(t.Context(), request(p))
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got %v", err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				c.want.HostPath, c.want.SELinuxRelabel = v.Path(p, "v"), true
				if got := list[0]; fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("got %+v\nwant %+v", got, c.want)
				}
			}
			release(t, v, dir, p.UID)
		})
	}
}

func TestImageVolumes(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	p := pod(vol("i", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "registry/data:1", PullPolicy: corev1.PullAlways}}))
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "dir"
	p.Spec.Volumes = append(p.Spec.Volumes, vol("unused", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}}))
	if got := volume.Images(p); !slices.Equal(got, []volume.ImageVolume{{"i", "registry/data:1", corev1.PullAlways}}) {
		t.Errorf("images: %v", got)
	}
	prepare(t, v, p)
	m := mounts(t, v, request(p))["/i"]
	if m.Image == nil || m.Image.Image != "registry/data:1" || m.ImageSubPath != "dir" || !m.ReadOnly || m.HostPath != "" {
		t.Errorf("%+v", m)
	}
	if v.Path(p, "i") != "" || v.Path(p, "none") != "" {
		t.Error("an image has a path")
	}
	release(t, v, dir, p.UID)
}

func TestHostsFile(t *testing.T) {
	aliases := []corev1.HostAlias{{IP: "1.2.3.4", Hostnames: []string{"a", "b"}}, {IP: "::5", Hostnames: []string{"c"}}}
	const managed = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	dir := t.TempDir()
	nodes := write(t, "127.0.0.1 localhost\n10.1.1.1 node\n", dir, "hosts")
	for name, c := range map[string]struct {
		ips     []string
		domain  string
		host    bool
		aliases []corev1.HostAlias
		mounted string
		want    string // empty means no file
	}{
		"plain":   {ips: []string{"10.0.0.5"}, want: managed + "10.0.0.5\tweb\n"},
		"domain":  {ips: []string{"10.0.0.5", "fd00::5"}, domain: "sub.ns.svc.x", want: managed + "10.0.0.5\tweb.sub.ns.svc.x\tweb\nfd00::5\tweb.sub.ns.svc.x\tweb\n"},
		"aliases": {ips: []string{"10.0.0.5"}, aliases: aliases, want: managed + "10.0.0.5\tweb\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::5\tc\n"},
		"host": {host: true, aliases: aliases[:1],
			want: "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n10.1.1.1 node\n\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n"},
		"noIP": {},
		"own":  {ips: []string{"10.0.0.5"}, mounted: "/etc/hosts"},
		"near": {ips: []string{"10.0.0.5"}, mounted: "/etc", want: managed + "10.0.0.5\tweb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			v, dir := node(t, nil, volume.Options{HostsFile: nodes})
			p := pod(emptyDirVolume("e", ""))
			if c.mounted != "" {
				p.Spec.Containers[0].VolumeMounts[0].MountPath = c.mounted
			}
			p.Spec.HostNetwork, p.Spec.HostAliases = c.host, c.aliases
			prepare(t, v, p)
			r := request(p)
			r.IPs, r.Domain = c.ips, c.domain
			list, err := v.Mounts(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(list, func(m cri.Mount) bool { return m.HostPath == filepath.Join(dir, "pods/uid-1/etc-hosts") })
			if (at >= 0) != (c.want != "") {
				t.Fatalf("mounts: %+v", list)
			}
			if at >= 0 {
				if got := read(t, list[at].HostPath); got != c.want || list[at].ContainerPath != "/etc/hosts" || list[at].ReadOnly {
					t.Errorf("%q\nwant %q (%+v)", got, c.want, list[at])
				}
				before, _ := os.Stat(list[at].HostPath)
				r.IPs = []string{"10.0.0.99"}
				mounts(t, v, r)
				if after, err := os.Stat(list[at].HostPath); err != nil || !os.SameFile(before, after) {
					t.Error("containers that run would keep another file")
				}
			}
			release(t, v, dir, p.UID)
		})
	}
	if machine, err := os.ReadFile("/etc/hosts"); err == nil {
		v, _ := node(t, nil, volume.Options{})
		p := pod()
		p.Spec.HostNetwork = true
		if got := read(t, mounts(t, v, request(p))["/etc/hosts"].HostPath); got != "# Kubernetes-managed hosts file (host network).\n"+string(machine) {
			t.Errorf("the machine's own file: %q", got)
		}
	}
	v, _ := node(t, nil, volume.Options{HostsFile: dir + "/no"})
	p := pod()
	p.Spec.HostNetwork = true
	if _, err := v.Mounts(t.Context(), request(p)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a hosts file: %v", err)
	}
}

func TestNestedMounts(t *testing.T) {
	v, dir := node(t, newServer(config("c", "a", "1")), volume.Options{})
	p := pod(configMapVolume("c"), emptyDirVolume("e", ""))
	at := func(paths ...string) (list []corev1.VolumeMount) {
		for _, m := range paths {
			name, path, _ := strings.Cut(m, ":")
			list = append(list, corev1.VolumeMount{Name: name, MountPath: path})
		}
		return list
	}
	p.Spec.Containers[0].VolumeMounts = at("c:/dir", "e:/dir/nested", "e:/dir/nested-vol", "e:/dir/nested/double", "e:/dir2/x", "e:/other")
	p.Spec.InitContainers = []corev1.Container{{Name: "init", VolumeMounts: at("c:/etc/c/", "e:/etc/c/a/b/")}}
	prepare(t, v, p)
	var made []string
	root := v.Path(p, "c")
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); d.IsDir() && !strings.HasPrefix(rel, ".") {
			made = append(made, rel)
		}
		return err
	})
	if err != nil || !slices.Equal(made, []string{"a", "a/b", "nested", "nested-vol"}) {
		t.Errorf("made %v, %v", made, err)
	}
	p.Spec.Containers[0].VolumeMounts = at("c:../dir", "e:../dir/nested")
	v2, _ := node(t, newServer(config("c", "a", "1")), volume.Options{})
	if err := v2.Prepare(t.Context(), p); err == nil || !strings.Contains(err.Error(), "invalid container mount point ../dir") {
		t.Errorf("got %v", err)
	}
	release(t, v, dir, p.UID)
}

func TestOrphans(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	if got, err := v.Orphans(func(types.UID) bool { return false }); err != nil || len(got) > 0 {
		t.Errorf("%v, %v", got, err)
	}
	p := pod(emptyDirVolume("e", ""))
	for _, uid := range []types.UID{"a", "b", "c"} {
		p.UID = uid
		prepare(t, v, p)
	}
	write(t, "not a pod", dir, "pods/file")
	next := reopen(t, dir, nil, volume.Options{})
	got, err := next.Orphans(func(uid types.UID) bool { return uid == "b" })
	if err != nil || !slices.Equal(got, []types.UID{"a", "c"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, uid := range got {
		if err := next.Release(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	if got, err := next.Orphans(func(types.UID) bool { return false }); err != nil || !slices.Equal(got, []types.UID{"b"}) {
		t.Errorf("%v, %v", got, err)
	}
	if err := next.Release(t.Context(), "b"); err != nil {
		t.Error(err)
	}
}

func TestManyInstances(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	p := pod()
	p.Spec.Containers[0].TerminationMessagePath = "/tmp/message"
	said := mounts(t, v, request(p))["/tmp/message"].HostPath
	write(t, "why it ended", said)
	last := ""
	for range 40 {
		last = mounts(t, v, request(p))["/tmp/message"].HostPath
	}
	entries, err := os.ReadDir(filepath.Join(dir, "pods/uid-1/containers/main"))
	if err != nil || len(entries) != 11 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	if read(t, last) != "" || read(t, said) != "why it ended" {
		t.Error("a message is gone")
	}
	release(t, v, dir, p.UID)
}

func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("x", 5000) + "END"
	logs := func(path string) (string, error) {
		if path != "/log" {
			return "", fmt.Errorf("no log at %s", path)
		}
		return "from the log", nil
	}
	fallback := string(corev1.TerminationMessageFallbackToLogsOnError)
	for name, c := range map[string]struct {
		file, policy, reason string
		code                 int32
		missing              bool
		want                 string
	}{
		"file":          {file: "bye", policy: "File", want: "bye"},
		"long":          {file: long, policy: "File", want: long[len(long)-4096:]},
		"empty":         {policy: "File", code: 1},
		"fallback":      {policy: fallback, code: 1, want: "from the log"},
		"both":          {file: "bye", policy: fallback, code: 1, want: "bye"},
		"success":       {policy: fallback},
		"cannotRun":     {policy: fallback, code: 1, reason: "ContainerCannotRun"},
		"fileMissing":   {policy: "File", code: 1, missing: true},
		"fileMissingFB": {policy: fallback, code: 1, missing: true, want: "from the log"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if !c.missing {
				write(t, c.file, file)
			}
			status := cri.ContainerStatus{
				Container: cri.Container{State: cri.ContainerExited, Annotations: map[string]string{
					"io.kubernetes.container.terminationMessagePath": "/dev/termination-log", "io.kubernetes.container.terminationMessagePolicy": c.policy,
				}},
				ExitCode: c.code, Reason: c.reason, LogPath: "/log",
				Mounts: []cri.Mount{{ContainerPath: "/etc/hosts", HostPath: "/etc/hosts"}, {ContainerPath: "/dev/termination-log", HostPath: file}},
			}
			if got := volume.TerminationMessage(status, logs); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			status.Message = "killed"
			both := "killed: " + c.want
			if c.want == "" {
				both = "killed"
			}
			if got := volume.TerminationMessage(status, logs); got != both {
				t.Errorf("%q, want %q", got, both)
			}
			status.Message, status.LogPath = "", "/other"
			if got := volume.TerminationMessage(status, logs); c.want == "from the log" && got != "Error on reading termination message from logs: no log at /other" {
				t.Errorf("%q", got)
			}
			if got := volume.TerminationMessage(status, nil); c.want == "from the log" && got != "" {
				t.Errorf("without logs: %q", got)
			}
			status.Mounts = nil
			if got := volume.TerminationMessage(status, nil); got != "" {
				t.Errorf("without a mount: %q", got)
			}
			status.Annotations = map[string]string{"io.kubernetes.container.terminationMessagePolicy": c.policy}
			status.Mounts = []cri.Mount{{ContainerPath: "/", HostPath: file}}
			if got := volume.TerminationMessage(status, nil); got != "" {
				t.Errorf("without a place for messages: %q", got)
			}
			status.State = cri.ContainerRunning
			if got := volume.TerminationMessage(status, logs); got != "" {
				t.Errorf("of one that runs: %q", got)
			}
			status.Annotations["io.kubernetes.container.terminationMessagePath"] = "/dev/termination-log"
			status.Mounts = []cri.Mount{{ContainerPath: "/dev/termination-log", HostPath: dir}}
			status.State = cri.ContainerExited
			if got := volume.TerminationMessage(status, logs); got != "Error on reading termination log "+dir+": not a regular file" {
				t.Errorf("a directory: %q", got)
			}
			below := write(t, "", dir, "file") + "/below"
			status.Mounts[0].HostPath = below
			if got := volume.TerminationMessage(status, logs); got != "Error on reading termination log "+below+": lstat "+below+": not a directory" {
				t.Errorf("below a file: %q", got)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	host := write(t, "secret", t.TempDir(), "file")
	p := pod(emptyDirVolume("e", ""))
	prepare(t, v, p)
	root := v.Path(p, "e")
	write(t, "A='1'", root, "dir/env")
	if err := os.Symlink("dir/env", root+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(host, root+"/out"); err != nil {
		t.Fatal(err)
	}
	if err := makePipe(root + "/pipe"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"pipe": "", "dir/env": "A='1'", "link": "A='1'", "out": "", "dir": "", "no": "", "../../../etc-hosts": ""} {
		f, err := v.Open(p, "e", path)
		if (err == nil) != (want != "") {
			t.Errorf("%s: %v", path, err)
		}
		if err != nil {
			continue
		}
		data := make([]byte, 10)
		n, _ := f.Read(data)
		if string(data[:n]) != want {
			t.Errorf("%s: %q", path, data[:n])
		}
		f.Close()
	}
	p.Spec.Volumes = append(p.Spec.Volumes, hostPathVolume("gone", dir+"/gone"))
	if f, err := v.Open(p, "gone", "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of a directory that is not there: %v, %v", f, err)
	}
	if _, err := v.Open(p, "none", "x"); err == nil {
		t.Error("a volume was opened that there is not")
	}
	release(t, v, dir, p.UID)
}

// TestRootless: without mounts, a sub-path is the checked path itself.
func TestRootless(t *testing.T) {
	v, dir := node(t, newServer(rootCA()), volume.Options{Rootless: true})
	host := write(t, "secret", t.TempDir(), "file")
	p := pod(emptyDirVolume("e", ""), emptyDirVolume("m", corev1.StorageMediumMemory), apiAccess())
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4242)), RunAsUser: new(int64(4242))}
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "a/b"
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	if want := filepath.Join(v.Path(p, "e"), "a/b"); got["/e"].HostPath != want || !mode(t, want).IsDir() {
		t.Errorf("%+v", got["/e"])
	}
	if m := mode(t, got["/kube-api-access-x"].HostPath, "token"); m != 0o600 {
		t.Errorf("token: %v", m)
	}
	if on := mountsBelow(t, dir); len(on) > 0 {
		t.Errorf("mounted: %v", on)
	}
	if err := os.Symlink(filepath.Dir(host), filepath.Join(v.Path(p, "e"), "out")); err != nil {
		t.Fatal(err)
	}
	p.Spec.Volumes[1] = hostPathVolume("m", filepath.Join(dir, "none"))
	p.Spec.Containers[0].VolumeMounts[1].SubPath = "sub"
	if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != `failed to prepare subPath for volumeMount "m" of container "main"` {
		t.Errorf("a path in a volume that is not there: %v", err)
	}
	p.Spec.Containers[0].VolumeMounts[0].SubPath = "out"
	if _, err := v.Mounts(t.Context(), request(p)); err == nil {
		t.Error("a link out of the volume was followed")
	}
	release(t, v, dir, p.UID)
	if read(t, host) != "secret" {
		t.Error("the host's file is gone")
	}
}
