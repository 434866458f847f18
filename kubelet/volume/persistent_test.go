package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// claimed makes a volume of that source bound to a claim of its name.
func claimed(name string, source corev1.PersistentVolumeSource, modes ...corev1.PersistentVolumeAccessMode) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	uid := types.UID("claim-" + name)
	return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		}, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
			Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource: source, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: name, UID: uid},
			},
		}
}

func claimVolume(name, claim string) corev1.Volume {
	return vol(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}})
}

func localSource(path string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}
}

// bind adds both objects.
func (s *server) bind(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	s.put(claim)
	s.put(pv)
}

func named(p *corev1.Pod, name string) *corev1.Pod {
	p.Name, p.UID = name, types.UID("uid-"+name)
	return p
}

// TestClaimOnTheWay: a pod waits for its claim in upstream's words, with its other volumes set up.
func TestClaimOnTheWay(t *testing.T) {
	s := newServer(config("there", "key", "value"))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"), configMapVolume("there"), configMapVolume("gone"))
	err := v.Prepare(t.Context(), p)
	want := "MountVolume.SetUp failed for volume \"gone\" : configmaps \"gone\" not found\n" +
		"Unable to attach or mount volumes: unmounted volumes=[data gone], unattached volumes=[], failed to process volumes=[data]: " +
		`error processing PVC ns/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	var unprocessed *claims.UnprocessedError
	if !errors.As(err, &unprocessed) || len(volume.Failures(err)) != 1 {
		t.Errorf("%T, failures %v", err, volume.Failures(err))
	}
	if _, err := v.Mounts(t.Context(), request(p)); err == nil || err.Error() != `cannot find volume "data" to mount into container "main"` {
		t.Errorf("mounting it: %v", err)
	}
	s.put(config("gone"))
	source := filepath.Join(dir, "source")
	write(t, "1", source, "file")
	s.bind(claimed("data", localSource(source)))
	prepare(t, v, p)
	at := mounts(t, v, request(p))["/data"]
	if at.ReadOnly || read(t, at.HostPath, "file") != "1" || v.Path(p, "data") != at.HostPath {
		t.Errorf("%+v", at)
	}
	release(t, v, dir, p.UID)
	if read(t, source, "file") != "1" {
		t.Error("the volume's data went with the pod")
	}
}

// TestRootlessLocal: without mounts, containers get the directory itself.
func TestRootlessLocal(t *testing.T) {
	source := t.TempDir()
	s := newServer()
	s.bind(claimed("data", localSource(source)))
	v, dir := node(t, s, volume.Options{Rootless: true})
	p := pod(claimVolume("data", "data"))
	prepare(t, v, p)
	if got := mounts(t, v, request(p))["/data"]; got.HostPath != source || got.ReadOnly || len(mountsBelow(t, dir)) != 0 {
		t.Errorf("%+v", got)
	}
	release(t, v, dir, p.UID)
}

// TestMountedClaimStays: a pod that has its volume does not lose it with the claim or the volume's object.
func TestMountedClaimStays(t *testing.T) {
	s := newServer()
	v, dir := node(t, s, volume.Options{})
	claim, pv := claimed("data", localSource(t.TempDir()))
	s.bind(claim, pv)
	p := pod(claimVolume("data", "data"))
	prepare(t, v, p)
	s.forget(claim)
	s.forget(pv)
	prepare(t, v, p)
	if v.Path(p, "data") == "" {
		t.Error("the volume is gone")
	}
	release(t, v, dir, p.UID)
	if v.Path(p, "data") != "" {
		t.Error("the volume stays")
	}
}

func TestPersistentErrors(t *testing.T) {
	dir := scratch(t)
	file := write(t, "x", dir, "file")
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o755); err != nil {
		t.Fatal(err)
	}
	block := corev1.PersistentVolumeBlock
	host := func(path string) corev1.PersistentVolumeSource {
		kind := corev1.HostPathDirectory
		return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &kind}}
	}
	here := func(pv *corev1.PersistentVolume, names ...string) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: names}},
		}}}}
	}
	asDevice := func(p *corev1.Pod, pv *corev1.PersistentVolume) {
		pv.Spec.VolumeMode = &block
		p.Spec.Containers[0].VolumeMounts = nil
		p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
	}
	for name, tt := range map[string]struct {
		source corev1.PersistentVolumeSource
		change func(*corev1.Pod, *corev1.PersistentVolume)
		want   string
	}{
		"here":     {localSource(dir + "/there"), func(_ *corev1.Pod, pv *corev1.PersistentVolume) { here(pv, "a", "b") }, ""},
		"a host's": {host(dir + "/there"), nil, ""},
		"elsewhere": {localSource(dir + "/there"), func(_ *corev1.Pod, pv *corev1.PersistentVolume) { here(pv, "c") },
			`MountVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms`},
		"vanished": {localSource(dir + "/no"), nil,
			`MountVolume.NewMounter initialization failed for volume "pv-data" : path "` + dir + `/no" does not exist`},
		"a file": {localSource(file), nil,
			`MountVolume.NewMounter initialization failed for volume "pv-data" : only directory and block device are supported`},
		"below a file": {localSource(file + "/dir"), nil,
			`MountVolume.NewMounter initialization failed for volume "pv-data" : stat ` + file + `/dir: not a directory`},
		"a backstep": {localSource(dir + "/there/../there"), nil,
			`MountVolume.SetUp failed for volume "pv-data" : invalid path: ` + dir + `/there/../there must not contain '..'`},
		"no directory of the host": {host(file), nil, `MountVolume.SetUp failed for volume "pv-data" : hostPath type check failed: ` + file + " is not a directory"},
		"options of a host's": {host(dir + "/there"), func(_ *corev1.Pod, pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"ro"} },
			`MountVolume.MountOptionSupport check failed for volume "pv-data" : mount options are not supported for this volume type`},
		"a driver's": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}}, nil,
			`MountVolume.SetUp failed for volume "pv-data" : no volume plugin matched: csi volumes are not supported`},
		"of another kind": {corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}, nil,
			`MountVolume.SetUp failed for volume "pv-data" : no volume plugin matched: rbd volumes are not supported`},
		"a local device": {localSource(dir + "/there"), asDevice, `MapVolume.MapPodDevice failed for volume "pv-data" : local volumes as devices are not supported`},
		"an exported device": {corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.9", Path: "/"}}, asDevice,
			`MapVolume.FindMapperPluginBySpec failed for volume "pv-data" : no volume plugin matched: nfs volumes as devices are not supported`},
		"another device": {host(dir), asDevice, `MapVolume.FindMapperPluginBySpec failed for volume "pv-data" : no volume plugin matched: hostPath volumes as devices are not supported`},
	} {
		t.Run(name, func(t *testing.T) {
			claim, pv := claimed("data", tt.source)
			s := newServer(claim, pv)
			v := reopen(t, dir, s, volume.Options{NodeLabels: func() map[string]string { return map[string]string{"name": "b"} }})
			p := pod(claimVolume("data", "data"))
			if tt.change != nil {
				tt.change(p, pv)
			}
			err := v.Prepare(t.Context(), p)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if all := volume.Failures(err); err != nil && (len(all) != 1 || all[0].Volume != "pv-data") {
				t.Errorf("failures %v", all)
			}
			release(t, v, dir, p.UID)
		})
	}
}

// TestOncePerPod: a ReadWriteOncePod volume is for one pod, also when another kubelet set it up, until that pod's
// volumes are released. Volumes of other modes are shared.
func TestOncePerPod(t *testing.T) {
	for name, tt := range map[string]struct {
		modes []corev1.PersistentVolumeAccessMode
		host  bool
		again bool // the kubelet restarts in between
		taken bool
	}{
		"once per pod":                  {[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod"}, false, false, true},
		"once per pod, after a restart": {[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod"}, false, true, true},
		"once per pod, of the host":     {[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod"}, true, false, true},
		"once per node":                 {[]corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, false, false, false},
		"either":                        {[]corev1.PersistentVolumeAccessMode{"ReadWriteOncePod", "ReadWriteOnce"}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.again {
				needMounts(t) // without mounts nothing outlives the kubelet
			}
			source := localSource(t.TempDir())
			if tt.host {
				source = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: t.TempDir()}}
			}
			s := newServer()
			s.bind(claimed("data", source, tt.modes...))
			v, dir := node(t, s, volume.Options{})
			first, second := named(pod(claimVolume("data", "data")), "a"), named(pod(claimVolume("data", "data")), "b")
			prepare(t, v, first)
			if tt.again {
				v = reopen(t, dir, s, volume.Options{})
			}
			err := v.Prepare(t.Context(), second)
			want := `MountVolume.SetUp failed for volume "pv-data" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`
			if tt.taken != (err != nil) || tt.taken && err.Error() != want {
				t.Errorf("got %v, want taken: %v", err, tt.taken)
			}
			prepare(t, v, first) // it still has it
			if err := v.Release(t.Context(), first.UID); err != nil {
				t.Fatal(err)
			}
			prepare(t, v, second)
			release(t, v, dir, second.UID)
		})
	}
}

// TestOncePerPodBesideOthers: volumes of other pods that nobody claimed do not count, even under the same name.
func TestOncePerPodBesideOthers(t *testing.T) {
	s := newServer()
	s.csi = &driver{}
	s.bind(claimed("data", localSource(t.TempDir()), "ReadWriteOncePod"))
	v, dir := node(t, s, volume.Options{})
	other := named(pod(vol("data", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}})), "other")
	prepare(t, v, other)
	p := pod(claimVolume("data", "data"))
	prepare(t, v, p)
	if err := v.Release(t.Context(), other.UID); err != nil {
		t.Fatal(err)
	}
	release(t, v, dir, p.UID)
}

// TestWithoutClaims: a kubelet without a source of claims does not have volumes that are claimed, but all others.
func TestWithoutClaims(t *testing.T) {
	v, dir := node(t, nil, volume.Options{})
	p := pod(claimVolume("data", "data"), emptyDirVolume("e", ""))
	want := `MountVolume.SetUp failed for volume "data" : no volume plugin matched: persistentVolumeClaim volumes are not supported`
	if err := v.Prepare(t.Context(), p); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if !exists(v.Path(p, "e")) {
		t.Error("the other volume is not there")
	}
	release(t, v, dir, p.UID)
}

// driver is a plugin that makes directories.
type driver struct {
	calls []string
	err   error
}

func (d *driver) SetUp(_ context.Context, m claims.Mount, dir string) (string, error) {
	d.calls = append(d.calls, "set up "+m.Name()+" at "+filepath.Base(filepath.Dir(dir)))
	path := filepath.Join(dir, "mount")
	if d.err != nil {
		return "", d.err
	}
	return path, os.MkdirAll(path, 0o755)
}

func (d *driver) TearDown(_ context.Context, uid types.UID, dir string) error {
	d.calls = append(d.calls, "tear down "+filepath.Base(dir)+" of "+string(uid))
	if d.err != nil {
		return d.err
	}
	return os.RemoveAll(dir)
}

// TestPlugin: volumes of drivers are set up on every sync and taken down before anything of the pod is removed, also by
// a later kubelet.
func TestPlugin(t *testing.T) {
	d := &driver{}
	s := newServer()
	s.csi = d
	s.bind(claimed("data", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}))
	v, dir := node(t, s, volume.Options{})
	p := pod(claimVolume("data", "data"), vol("own", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d", ReadOnly: new(true)}}))
	prepare(t, v, p)
	prepare(t, v, p)
	got := mounts(t, v, request(p))
	if want := filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~csi/pv-data/mount"); got["/data"].HostPath != want || got["/data"].ReadOnly {
		t.Errorf("%+v", got["/data"])
	}
	if want := filepath.Join(dir, "pods/uid-1/volumes/kubernetes.io~csi/own/mount"); got["/own"].HostPath != want || !got["/own"].ReadOnly {
		t.Errorf("%+v", got["/own"])
	}
	d.err = errors.New("hangs")
	v = reopen(t, dir, s, volume.Options{})
	err := v.Release(t.Context(), p.UID)
	if err == nil || !strings.Contains(err.Error(), `UnmountVolume.TearDown failed for volume "pv-data" : hangs`) {
		t.Errorf("releasing it: %v", err)
	}
	d.err = nil
	release(t, v, dir, p.UID)
	want := "set up pv-data at kubernetes.io~csi,set up own at kubernetes.io~csi,set up pv-data at kubernetes.io~csi,set up own at kubernetes.io~csi," +
		"tear down own of uid-1,tear down pv-data of uid-1,tear down own of uid-1,tear down pv-data of uid-1"
	if got := strings.Join(d.calls, ","); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestOperationOfAPlugin: a plugin may say which of its operations failed.
func TestOperationOfAPlugin(t *testing.T) {
	s := newServer()
	s.csi = &driver{err: &volume.SetUpError{Operation: "MountVolume.MountDevice failed", Err: errors.New("busy")}}
	s.bind(claimed("data", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}))
	v, _ := node(t, s, volume.Options{})
	err := v.Prepare(t.Context(), pod(claimVolume("data", "data")))
	if want := `MountVolume.MountDevice failed for volume "pv-data" : busy`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAttachLimit: the pod is to be rejected, in upstream's words, if the node cannot take one of its volumes; why each is
// missing is said all the same.
func TestAttachLimit(t *testing.T) {
	full := fmt.Errorf("full: %w", claims.ErrAttachLimit)
	s := newServer()
	s.csi = &driver{err: &volume.SetUpError{Operation: "Volume not attached according to node status", Err: full}}
	for _, name := range []string{"web", "data"} {
		s.bind(claimed(name, corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}))
	}
	v, _ := node(t, s, volume.Options{})
	err := v.Prepare(t.Context(), pod(claimVolume("web", "web"), claimVolume("data", "data"), claimVolume("lost", "lost")))
	var refusal *kubelet.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != "VolumeAttachmentLimitExceeded" {
		t.Fatalf("%v", err)
	}
	if want := "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[data lost web], unattached volumes=[data web], " +
		"failed to process volumes=[lost]: context deadline exceeded"; refusal.Message != want {
		t.Errorf("got  %s\nwant %s", refusal.Message, want)
	}
	for _, want := range []string{
		`Volume not attached according to node status for volume "pv-web" : full: `, `Volume not attached according to node status for volume "pv-data" : full: `,
		"failed to process volumes=[lost]: ",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	s.csi = &driver{err: errors.New("slow")}
	v, _ = node(t, s, volume.Options{})
	if err := v.Prepare(t.Context(), pod(claimVolume("data", "data"))); err == nil || errors.As(err, &refusal) {
		t.Errorf("of another error: %v", err)
	}
}
