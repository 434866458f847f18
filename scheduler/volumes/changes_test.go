package volumes_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// busy is a cluster of many claims for a pod and as many volumes, each of a size of its own.
type busy struct {
	*server
	v *volumes.Volumes
	// names are the pod's claims; other are those of another pod that can have the same volumes.
	names, other []string
}

func newBusy(t *testing.T) *busy {
	b := &busy{server: newServer(t)}
	b.v = volumes.New(b.in, b, volumes.Options{})
	for _, name := range []string{"n", "m"} {
		b.in.Nodes.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
	}
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	b.in.Classes.Put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait})
	b.in.Classes.Put(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "made"}, Provisioner: "disk.example.com", VolumeBindingMode: &wait})
	return b
}

// add adds claims of a class.
func (b *busy) add(n int, class string) {
	for i := range n {
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", i+1))}
		for prefix, names := range map[string]*[]string{"x": &b.names, "y": &b.other} {
			c := claim(fmt.Sprintf("%s-%s-%d", prefix, class, i), class)
			c.Spec.Resources.Requests, c.ResourceVersion = size, "1"
			b.in.Claims.Put(c)
			*names = append(*names, c.Name)
		}
		if class == "local" {
			d := disk(fmt.Sprintf("d-%d", i), "n")
			d.Spec.Capacity, d.ResourceVersion = size, "1"
			b.in.Volumes.Put(d)
		}
	}
}

// reserveDuring reserves for a pod, over and over, while an object changes, until that fails. It calls before each time.
func (b *busy) reserveDuring(t *testing.T, p *corev1.Pod, before func(), change func(version string)) error {
	t.Helper()
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for version := 2; ; version++ {
			select {
			case <-stop:
				return
			default:
				change(strconv.Itoa(version))
			}
		}
	})
	defer changing.Wait()
	defer close(stop)
	for {
		before()
		undo, err := b.v.Reserve(p, "n")
		if err != nil {
			return err
		}
		if undo == nil {
			t.Fatal("reserved without a way back")
		}
		undo()
	}
}

// TestVolumesChangeMeanwhile: if one of the volumes changes while they are reserved, none of them is, and what another pod was
// promised stays.
func TestVolumesChangeMeanwhile(t *testing.T) {
	const n = 40
	b := newBusy(t)
	b.add(n, "local")
	last, _ := b.in.Volumes.Get("", fmt.Sprintf("d-%d", n-1))
	shared := claim("shared", "made")
	shared.ResourceVersion = "1"
	b.in.Claims.Put(shared)
	promise := func() { reserve(t, b.v, pod("third", "shared"), "n") }
	err := b.reserveDuring(t, pod("a", append(b.names, "shared")...), promise, func(version string) {
		d := last.DeepCopy()
		d.ResourceVersion = version
		b.in.Volumes.Put(d)
	})
	if !strings.HasPrefix(err.Error(), fmt.Sprintf(`"d-%d" is out of sync (stored: `, n-1)) || errors.Is(err, volumes.ErrChanged) {
		t.Errorf("got %v", err)
	}
	want(t, volumes.BindConflict, reasons(t, b.server, b.v, pod("fourth", "shared"), "m"))
	want(t, "", reasons(t, b.server, b.v, pod("b", b.other...), "n"))
}

// TestClaimsChangeMeanwhile: the same for claims for which volumes are to be made.
func TestClaimsChangeMeanwhile(t *testing.T) {
	const n = 40
	b := newBusy(t)
	b.add(n, "made")
	last, _ := b.in.Claims.Get("ns", b.names[n-1])
	err := b.reserveDuring(t, pod("a", b.names...), func() {}, func(version string) {
		c := last.DeepCopy()
		c.ResourceVersion = version
		b.in.Claims.Put(c)
	})
	if !strings.HasPrefix(err.Error(), fmt.Sprintf(`"ns/%s" is out of sync (stored: `, last.Name)) {
		t.Errorf("got %v", err)
	}
	want(t, "", reasons(t, b.server, b.v, pod("b", b.names...), "m"))
}
