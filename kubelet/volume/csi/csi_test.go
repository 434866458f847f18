package csi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/faults"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
	"github.com/keelson-dev/keelson/controllers/controllerstest"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// TestRegistration: a driver is in the node's CSINode, annotation and labels as long as its registrar is there.
func TestRegistration(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	node, own := get[*corev1.Node](b, "nodes", "", "node"), get[*storagev1.CSINode](b, "csinodes", "", "node")
	if node.Annotations["csi.volume.kubernetes.io/nodeid"] != `{"disks.example.com":"n-1"}` || node.Labels["example.com/zone"] != "z" {
		t.Errorf("node: %v, %v", node.Annotations, node.Labels)
	}
	if len(own.OwnerReferences) != 1 || own.OwnerReferences[0].UID != node.UID || own.Annotations["storage.alpha.kubernetes.io/migrated-plugins"] == "" {
		t.Errorf("CSINode: %+v", own.ObjectMeta)
	}
	if d := own.Spec.Drivers; len(d) != 1 || d[0].Name != driverName || d[0].NodeID != "n-1" || !slices.Equal(d[0].TopologyKeys, []string{"example.com/zone"}) || *d[0].Allocatable.Count != 7 {
		t.Errorf("drivers: %+v", d)
	}
	b.leave()
	b.must(os.RemoveAll(filepath.Join(b.dir, "plugins_registry"))) // which is no reason to end
	b.eventually("the driver is gone", func() bool {
		return len(get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers) == 0 && len(get[*corev1.Node](b, "nodes", "", "node").Annotations) == 0
	})
	if err := b.setUp(mountOf("p")); !errors.Is(err, csi.ErrNotRegistered) {
		t.Errorf("without a driver: %v", err)
	}
	b.must(b.tearDown(mountOf("p"))) // nothing was mounted
	b.leave = b.script.serve(t, b.dir)
	b.eventually("the driver is back", func() bool { return len(get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers) == 1 })
}

// TestRefusedRegistrations: registrars are told why, and may try again.
func TestRefusedRegistrations(t *testing.T) {
	for name, test := range map[string]struct {
		before func(b *bench)
		want   string
	}{
		"version": {func(b *bench) { b.script.versions = []string{"0.3.0"} }, "none of the versions is supported"},
		"no name": {func(b *bench) { b.script.info = &csispec.NodeGetInfoResponse{} }, "nodeID must not be empty"},
		"error":   {func(b *bench) { b.script.fail["info"] = errDriver }, "error during CSI NodeGetInfo() call: rpc error: code = Unknown desc = no such disk"},
		"labels": {func(b *bench) {
			b.script.info = &csispec.NodeGetInfoResponse{NodeId: "n-1", AccessibleTopology: &csispec.Topology{Segments: map[string]string{"example.com/zone": "other"}}}
		}, `detected topology value collision: driver reported "example.com/zone":"other" but existing label is "example.com/zone":"z"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{})
			b.stop()
			b.script.set(func() { b.script.status = nil; test.before(b) })
			b.run()
			b.eventually("refused", func() bool { return b.status() != nil })
			if s := b.status(); s.GetPluginRegistered() || !strings.Contains(s.GetError(), test.want) {
				t.Errorf("told %v", s)
			}
		})
	}
}

// TestLife: a volume is staged once, published for each pod, and taken down in the reverse order.
func TestLife(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	first, second := mountOf("p"), mountOf("q")
	b.must(b.setUp(first))
	b.took("stage h, publish h")
	if r := b.script.stage; r.GetStagingTargetPath() != filepath.Join(b.dir, "plugins/kubernetes.io/csi", driverName, "aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123", "globalmount") ||
		r.GetVolumeCapability().GetMount().GetFsType() != "ext4" || !slices.Equal(r.GetVolumeCapability().GetMount().GetMountFlags(), []string{"noatime"}) ||
		r.GetVolumeCapability().GetAccessMode().GetMode() != csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER || r.GetVolumeContext()["a"] != "b" {
		t.Errorf("staged with %v", r)
	}
	if r := b.script.publish; r.GetStagingTargetPath() != b.script.stage.GetStagingTargetPath() || len(r.GetVolumeContext()) != 1 || r.GetReadonly() {
		t.Errorf("published with %v", r)
	}
	content, err := os.ReadFile(filepath.Join(b.at(first), "vol_data.json"))
	var known map[string]string
	if b.must(errors.Join(err, json.Unmarshal(content, &known))); known["specVolID"] != "pv" || known["volumeHandle"] != "h" || known["driverName"] != driverName ||
		known["nodeName"] != "node" || known["volumeLifecycleMode"] != "Persistent" || known["attachmentID"] != attachdetach.AttachmentName("h", driverName, "node") {
		t.Errorf("noted %s", content)
	}
	b.must(b.setUp(first)) // every sync of the pod
	b.took("")
	b.must(b.setUp(second))
	b.took("publish h")
	b.must(b.tearDown(first))
	b.took("unpublish h")
	b.must(b.tearDown(second))
	b.took("unpublish h, unstage h")
	b.must(b.tearDown(second))
	b.took("")
	b.bare()
}

// TestWithoutStaging: drivers need not stage volumes.
func TestWithoutStaging(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.script.can = nil
	b.must(b.setUp(mountOf("p")))
	b.took("publish h")
	if r := b.script.publish; r.GetStagingTargetPath() != "" {
		t.Errorf("published with %v", r)
	}
	b.must(b.tearDown(mountOf("p")))
	b.took("unpublish h")
	b.bare()
}

// TestRestart: another process takes down what one has mounted, even if it was killed in between.
func TestRestart(t *testing.T) {
	for name, test := range map[string]struct{ fails, took string }{
		"after publishing":  {"", "unpublish h, unstage h"},
		"while staging":     {"stage", "unstage h"},
		"while publishing":  {"publish", "unstage h"},
		"while unstaging":   {"unstage", "unstage h"},
		"while unpublished": {"unpublish", "unpublish h, unstage h"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(nil))
			b.script.set(func() { b.script.fail[test.fails] = status.Error(codes.Aborted, "busy") })
			err := b.setUp(mountOf("p"))
			if strings.HasPrefix(test.fails, "un") {
				b.must(err)
				err = b.tearDown(mountOf("p"))
			}
			if (err != nil) != (test.fails != "") {
				t.Fatal(err)
			}
			b.script.set(func() { b.script.fail = map[string]error{} })
			// Another driver's volume of the same handle is another volume.
			content, err := os.ReadFile(filepath.Join(b.at(mountOf("p")), "vol_data.json"))
			other := filepath.Join(b.at(mountOf("q")), "vol_data.json")
			b.must(errors.Join(err, os.MkdirAll(filepath.Dir(other), 0o750), os.WriteFile(other, bytes.ReplaceAll(content, []byte(driverName), []byte("other.example.com")), 0o600)))
			b.restart()
			b.must(b.tearDown(mountOf("p")))
			b.took(test.took)
			b.must(os.Remove(other))
			b.bare()
		})
	}
}

// TestErrors: what a driver says is the reason why a pod waits. What certainly failed leaves nothing.
func TestErrors(t *testing.T) {
	for verb, want := range map[string]string{
		"stage":   `MountVolume.MountDevice failed for volume "" : rpc error: code = Unknown desc = no such disk`,
		"publish": "rpc error: code = Unknown desc = no such disk",
	} {
		t.Run(verb, func(t *testing.T) {
			b := start(t, csi.Options{}, object(nil))
			b.script.set(func() { b.script.fail[verb] = errDriver })
			if err := b.setUp(mountOf("p")); err == nil || err.Error() != want {
				t.Errorf("%v", err)
			}
			b.script.set(func() { b.script.fail = map[string]error{} })
			b.must(b.setUp(mountOf("p")))
			b.must(b.tearDown(mountOf("p")))
			b.bare()
		})
	}
}

// TestHanging: a driver that hangs is given up on, and only what needs that volume waits.
func TestHanging(t *testing.T) {
	b := start(t, csi.Options{Timeout: 5 * time.Second}, object(nil)) // enough for a call that does not hang on a busy machine
	b.script.set(func() { b.script.hang["stage"] = true })
	hung := make(chan error, 1)
	go func() { hung <- b.setUp(mountOf("p")) }()
	b.eventually("staging", func() bool { return b.script.took() == "stage h" })
	b.script.set(func() { b.script.hang["stage"] = false })
	other := mountOf("q")
	other.Persistent.Name, other.Persistent.Spec.CSI.VolumeHandle = "pv-2", "h-2"
	b.must(b.setUp(other))
	if err := <-hung; status.Code(errors.Unwrap(err)) != codes.DeadlineExceeded {
		t.Errorf("%v", err)
	}
	b.must(b.setUp(mountOf("p")))
	b.must(errors.Join(b.tearDown(mountOf("p")), b.tearDown(other)))
	b.bare()
}

// TestLyingDriver: a driver that has not unmounted what it says it has is asked again.
func TestLyingDriver(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.must(b.setUp(mountOf("p")))
	honest := b.script.unmount
	b.script.set(func() { b.script.unmount = func(string) error { return nil } })
	b.must(os.WriteFile(filepath.Join(b.at(mountOf("p")), "mount", "precious"), nil, 0o600))
	if err := b.tearDown(mountOf("p")); err == nil {
		t.Error("something is left")
	}
	b.script.took()
	b.script.set(func() { b.script.unmount = honest })
	b.must(b.tearDown(mountOf("p")))
	b.took("unpublish h, unstage h")
	b.bare()
}

// TestAttached: a volume is reported in use before anything is done with it, and waited for.
func TestAttached(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	name := attachdetach.VolumeName(driverName, "h")
	err := b.setUp(mountOf("p"))
	var later interface{ RetryAfter() time.Duration }
	if err == nil || !strings.HasPrefix(err.Error(), "Volume not attached according to node status") || !errors.As(err, &later) || later.RetryAfter() != 2*time.Second {
		t.Fatalf("%v", err)
	}
	if got := get[*corev1.Node](b, "nodes", "", "node").Status.VolumesInUse; !slices.Equal(got, []corev1.UniqueVolumeName{name}) {
		t.Fatalf("in use: %v", got)
	}
	b.took("")
	report := func(inUse ...corev1.UniqueVolumeName) {
		node := get[*corev1.Node](b, "nodes", "", "node").DeepCopy()
		node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: name}}
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, inUse...)
		_, err := b.api.Others.Update(b.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "node", Subresource: "status"}, node, metav1.UpdateOptions{})
		b.must(err)
	}
	report("example.com/other")
	if err := b.setUp(mountOf("p")); err == nil || !strings.HasPrefix(err.Error(), `MountVolume.WaitForAttach failed for volume "" : volume h has GET error`) {
		t.Fatalf("%v", err)
	}
	pv := "pv"
	at := client.Target{Resource: storagev1.SchemeGroupVersion.WithResource("volumeattachments"), Name: attachdetach.AttachmentName("h", driverName, "node")}
	va, err := client.As[*storagev1.VolumeAttachment](b.api.Others.Create(b.Context(), at, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: at.Name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}, metav1.CreateOptions{}))
	b.must(err)
	change := func(status storagev1.VolumeAttachmentStatus) {
		next := va.DeepCopy()
		next.Status = status
		at.Subresource = "status"
		va, err = client.As[*storagev1.VolumeAttachment](b.api.Others.Update(b.Context(), at, next, metav1.UpdateOptions{}))
		b.must(err)
	}
	for message, status := range map[string]storagev1.VolumeAttachmentStatus{
		"volume h is not attached for volume attachment " + at.Name: {},
		"no room": {AttachError: &storagev1.VolumeError{Message: "no room"}},
	} {
		change(status)
		if err := b.setUp(mountOf("p")); err == nil || err.Error() != `MountVolume.WaitForAttach failed for volume "" : `+message {
			t.Errorf("%v", err)
		}
	}
	at.Subresource = ""
	held := va.DeepCopy()
	held.Finalizers = []string{"example.com/held"}
	va, err = client.As[*storagev1.VolumeAttachment](b.api.Others.Update(b.Context(), at, held, metav1.UpdateOptions{}))
	b.must(err)
	b.must(b.api.Others.Delete(b.Context(), at, metav1.DeleteOptions{}))
	if err := b.setUp(mountOf("p")); err == nil || err.Error() != `MountVolume.WaitForAttach failed for volume "" : volume attachment is being deleted` {
		t.Errorf("%v", err)
	}
	if va, err = client.As[*storagev1.VolumeAttachment](b.api.Others.Get(b.Context(), at)); err == nil {
		free := va.DeepCopy()
		free.Finalizers = nil
		_, err = b.api.Others.Update(b.Context(), at, free, metav1.UpdateOptions{})
	}
	b.must(err)
	fresh := va.DeepCopy()
	fresh.ObjectMeta = metav1.ObjectMeta{Name: at.Name}
	va, err = client.As[*storagev1.VolumeAttachment](b.api.Others.Create(b.Context(), at, fresh, metav1.CreateOptions{}))
	b.must(err)
	change(storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/x"}})
	b.must(b.setUp(mountOf("p")))
	if !maps.Equal(b.script.stage.GetPublishContext(), map[string]string{"device": "/dev/x"}) || !maps.Equal(b.script.publish.GetPublishContext(), b.script.stage.GetPublishContext()) {
		t.Errorf("published with %v", b.script.publish)
	}
	b.api.Reset()
	q := mountOf("q")
	q.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(someGroup())} // which no CSIDriver is needed for
	b.must(b.setUp(q))
	if writes := b.api.Writes(); len(writes) > 0 {
		t.Errorf("what was reported is written again: %v", writes)
	}
	if info, err := os.Stat(filepath.Join(b.at(q), "mount")); err != nil || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("the volume is not the group's: %v, %v", info, err)
	}
	b.must(b.tearDown(q))
	b.restart()
	another := mountOf("p")
	another.Persistent.Spec.CSI.VolumeHandle = "g"
	if err := b.setUp(another); err == nil || !strings.HasPrefix(err.Error(), "Volume not attached according to node status") {
		t.Errorf("%v", err)
	}
	if got := get[*corev1.Node](b, "nodes", "", "node").Status.VolumesInUse; !slices.Contains(got, name) {
		t.Errorf("in use after a restart: %v", got)
	}
	b.must(b.tearDown(another))
	b.must(b.setUp(mountOf("p")))
	const lost = "reporting the volumes in use failed"
	if strings.Contains(log.String(), lost) {
		t.Errorf("logged is %s", log.String())
	}
	b.api.Inject(faults.Fault{Verb: faults.Patch, Resource: "nodes/status", Err: errDown, Times: 1})
	b.must(b.tearDown(mountOf("p"))) // which is over, whoever hears of it
	if !strings.Contains(log.String(), lost) {
		t.Errorf("logged is %s", log.String())
	}
	b.eventually("reported again", func() bool {
		return slices.Equal(get[*corev1.Node](b, "nodes", "", "node").Status.VolumesInUse, []corev1.UniqueVolumeName{"example.com/other"})
	})
}

// TestLostReport: that a volume is in use no more is reported later if that was lost, even by an earlier process.
func TestLostReport(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.stop()
	node := get[*corev1.Node](b, "nodes", "", "node").DeepCopy()
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{attachdetach.VolumeName(driverName, "gone")}
	_, err := b.api.Others.Update(b.Context(), client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: "node", Subresource: "status"}, node, metav1.UpdateOptions{})
	b.must(err)
	b.run()
	b.eventually("reported again", func() bool { return len(get[*corev1.Node](b, "nodes", "", "node").Status.VolumesInUse) == 0 })
}

// TestInline: volumes in the specs of pods are published only, by drivers that say so.
func TestInline(t *testing.T) {
	b := start(t, csi.Options{})
	if err := b.setUp(inlineOf("p")); err == nil || !strings.HasSuffix(err.Error(), `volume mode "Ephemeral" not supported by driver disks.example.com (no CSIDriver object)`) {
		t.Errorf("%v", err)
	}
	b.must(b.tearDown(inlineOf("p")))
	b.must(b.api.Add(b.Context(), object(func(s *storagev1.CSIDriverSpec) {
		s.AttachRequired = nil // which is not about these
		s.VolumeLifecycleModes, s.PodInfoOnMount = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}, new(true)
	})))
	if err := b.setUp(mountOf("p")); err == nil || !strings.HasSuffix(err.Error(), `volume mode "Persistent" not supported by driver disks.example.com (only supports ["Ephemeral"])`) {
		t.Errorf("%v", err)
	}
	b.must(b.setUp(inlineOf("p")))
	handle := b.script.publish.GetVolumeId()
	b.took("publish " + handle)
	want := map[string]string{
		"csi.storage.k8s.io/pod.name": "p", "csi.storage.k8s.io/pod.namespace": "default", "csi.storage.k8s.io/pod.uid": "uid-p",
		"csi.storage.k8s.io/serviceAccount.name": "sa", "csi.storage.k8s.io/ephemeral": "true",
	}
	if got := b.script.publish.GetVolumeContext(); !maps.Equal(got, want) || !strings.HasPrefix(handle, "csi-") || len(handle) != 68 {
		t.Errorf("published %s with %v", handle, got)
	}
	b.restart()
	b.must(b.tearDown(inlineOf("p")))
	b.took("unpublish " + handle)
	b.bare()
	for _, readOnly := range []*bool{nil, new(false), new(true)} {
		m := inlineOf("p")
		m.Volume.CSI.ReadOnly = readOnly
		b.must(b.setUp(m))
		if got := b.script.publish.GetReadonly(); got != (readOnly != nil && *readOnly) {
			t.Errorf("published read-only: %t", got)
		}
		b.must(b.tearDown(m))
	}
}

// TestSecretsAndTokens reach the driver where its object says.
func TestSecretsAndTokens(t *testing.T) {
	b := start(t, csi.Options{}, object(func(s *storagev1.CSIDriverSpec) {
		s.TokenRequests = []storagev1.TokenRequest{{Audience: "vault"}}
	}))
	for _, name := range []string{"one", "two"} {
		b.must(b.api.Add(b.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string][]byte{"key": []byte(name)}}))
	}
	m := mountOf("p")
	m.Persistent.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "one"}
	m.Persistent.Spec.CSI.NodePublishSecretRef = &corev1.SecretReference{Namespace: "default", Name: "missing"}
	if err := b.setUp(m); err == nil || !strings.HasPrefix(err.Error(), "fetching NodePublishSecretRef default/missing failed") {
		t.Errorf("%v", err)
	}
	m.Persistent.Spec.CSI.NodePublishSecretRef.Name = "two"
	b.must(b.setUp(m))
	const tokens = "csi.storage.k8s.io/serviceAccount.tokens"
	if r := b.script.publish; b.script.stage.GetSecrets()["key"] != "one" || r.GetSecrets()["key"] != "two" ||
		r.GetVolumeContext()["a"] != "b" || r.GetVolumeContext()[tokens] != `{"vault":{"token":"default/sa for [vault]","expirationTimestamp":null}}` {
		t.Errorf("published with %v", r)
	}
	m = mountOf("q")
	m.Pod.Spec.ServiceAccountName = "none"
	if err := b.setUp(m); err == nil || !strings.HasSuffix(err.Error(), "failed to get service accoount token attributes: no such account") {
		t.Errorf("without a token: %v", err)
	}
}

// TestRepublish: drivers may want their volumes published again and again.
func TestRepublish(t *testing.T) {
	synced := make(chan types.UID, 100)
	b := start(t, csi.Options{Sync: func(uid types.UID) {
		select {
		case synced <- uid:
		default:
		}
	}}, object(func(s *storagev1.CSIDriverSpec) { s.RequiresRepublish = new(true) }))
	b.must(b.setUp(mountOf("p")))
	b.took("stage h, publish h")
	b.drivers.Age(b.at(mountOf("p")), 5*time.Second)
	b.must(b.setUp(mountOf("p"))) // too soon for that
	b.took("")
	b.drivers.Age(b.at(mountOf("p")), 5*time.Second)
	b.must(b.setUp(mountOf("p")))
	b.took("publish h")
	if uid := <-synced; uid != "uid-p" {
		t.Errorf("%s is synced", uid)
	}
	b.restart()
	b.script.set(func() { b.script.fail["publish"] = errDriver })
	b.must(os.WriteFile(filepath.Join(b.at(mountOf("p")), "mount", "kept"), nil, 0o600))
	if err := b.setUp(mountOf("p")); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(b.at(mountOf("p")), "mount", "kept")); err != nil {
		t.Error(err) // the pod has its files
	}
	b.script.took()
	b.script.set(func() { b.script.fail = map[string]error{} })
	b.must(b.setUp(mountOf("p")))
	b.took("publish h")
}

// TestExpand: a volume that has grown is expanded, and its claim says so.
func TestExpand(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	m := mountOf("p")
	m.Claim.Spec = corev1.PersistentVolumeClaimSpec{AccessModes: m.Persistent.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: m.Persistent.Spec.Capacity}}
	m.Claim.Status.Phase = corev1.ClaimBound
	for _, c := range []corev1.PersistentVolumeClaimConditionType{corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending, "example.com/Kept"} {
		m.Claim.Status.Conditions = append(m.Claim.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: c, Status: corev1.ConditionTrue})
	}
	m.Claim = controllerstest.Add(t, b.api, m.Claim)
	b.must(b.setUp(m))
	b.took("stage h, publish h")
	b.drivers.Age(b.at(m), time.Hour)
	b.must(b.setUp(m)) // its driver does not want it published again
	b.took("")
	grown := m.Persistent.DeepCopy()
	grown.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *m.Persistent.Spec.Capacity.Storage()}
	size := grown.Spec.Capacity[corev1.ResourceStorage]
	size.Add(size)
	grown.Spec.Capacity[corev1.ResourceStorage] = size
	m.Persistent = grown
	b.script.set(func() { b.script.fail["expand"] = errDriver })
	b.must(b.setUp(m)) // the pod has its volume all the same
	b.took("expand h 2147483648")
	b.script.set(func() { b.script.fail = map[string]error{} })
	b.must(b.setUp(m))
	b.took("expand h 2147483648")
	claim := get[*corev1.PersistentVolumeClaim](b, "persistentvolumeclaims", "default", "c")
	if c := claim.Status.Conditions; claim.Status.Capacity.Storage().Cmp(size) != 0 || len(c) != 1 || c[0].Type != "example.com/Kept" {
		t.Errorf("claim: %+v", claim.Status)
	}
	m.Claim = claim
	b.must(b.setUp(m))
	b.took("")
	told := b.events.Take()
	slices.Sort(told)
	if told = slices.Compact(told); !slices.Equal(told, []string{
		`Normal FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume "pv" node`,
		`Warning VolumeResizeFailed NodeExpandVolume.NodeExpandVolume failed for volume "pv" : rpc error: code = Unknown desc = no such disk`,
	}) {
		t.Errorf("events: %q", told)
	}
}

// TestDevices are not supported.
func TestDevices(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	m := mountOf("p")
	m.Persistent.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	if err := b.setUp(m); !errors.Is(err, csi.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestModes: access modes are mapped, and told apart for drivers that do so.
func TestModes(t *testing.T) {
	for mode, want := range map[corev1.PersistentVolumeAccessMode][2]csispec.VolumeCapability_AccessMode_Mode{
		corev1.ReadWriteOnce:    {csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		corev1.ReadWriteOncePod: {csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		corev1.ReadOnlyMany:     {csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
		corev1.ReadWriteMany:    {csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		"x":                     {csispec.VolumeCapability_AccessMode_UNKNOWN, csispec.VolumeCapability_AccessMode_UNKNOWN},
	} {
		for i, want := range want {
			b := start(t, csi.Options{}, object(nil))
			if i == 1 {
				b.script.can = append(b.script.can, csispec.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
			}
			m := mountOf("p")
			m.Persistent.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{mode}
			b.must(b.setUp(m))
			if got := b.script.publish.GetVolumeCapability().GetAccessMode().GetMode(); got != want {
				t.Errorf("%s: %v, want %v", mode, got, want)
			}
		}
	}
}

// TestEnd: what waits for a driver ends with its context.
func TestEnd(t *testing.T) {
	b := start(t, csi.Options{}, object(nil))
	b.script.set(func() { b.script.hang["publish"] = true })
	ctx, cancel := context.WithCancel(t.Context())
	hung := make(chan error, 2)
	go func() { _, err := b.drivers.SetUp(ctx, mountOf("p"), b.at(mountOf("p"))); hung <- err }()
	b.eventually("publishing", func() bool { return strings.HasSuffix(b.script.took(), "publish h") })
	go func() { _, err := b.drivers.SetUp(ctx, mountOf("q"), b.at(mountOf("q"))); hung <- err }()
	cancel()
	for range 2 {
		if err := <-hung; status.Code(err) != codes.Canceled && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}
