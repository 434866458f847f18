package csi_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/controllers/attachdetach"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/csi"
)

// hasty reads CSIDrivers whose period is a tenth of the one they have, which is at least ten seconds.
type hasty struct{ client.Client }

func (h hasty) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	obj, err := h.Client.Get(ctx, t)
	if d, ok := obj.(*storagev1.CSIDriver); ok && d.Spec.NodeAllocatableUpdatePeriodSeconds != nil {
		d = d.DeepCopy()
		*d.Spec.NodeAllocatableUpdatePeriodSeconds /= 10
		return d, err
	}
	return obj, err
}

// drivers returns what the CSINode says.
func (b *bench) published() []storagev1.CSINodeDriver {
	b.Helper()
	return get[*storagev1.CSINode](b, "csinodes", "", "node").Spec.Drivers
}

// limit returns how many volumes the CSINode allows, -1 if it does not say.
func (b *bench) limit() int32 {
	b.Helper()
	if d := b.published(); len(d) == 1 && d[0].Allocatable != nil {
		return *d[0].Allocatable.Count
	}
	return -1
}

func (b *bench) allow(volumes int64) {
	b.script.set(func() {
		b.script.info = &csispec.NodeGetInfoResponse{NodeId: "n-1", MaxVolumesPerNode: volumes, AccessibleTopology: b.script.info.GetAccessibleTopology()}
	})
}

// TestLimitIsUpdated: a driver that wants it is asked from time to time how many volumes the node can have.
func TestLimitIsUpdated(t *testing.T) {
	var log lines
	b := start(t, csi.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	b.client = hasty{b.api}
	b.restart()
	if got := b.limit(); got != 7 {
		t.Fatalf("at first %d", got)
	}
	b.allow(9)
	b.must(b.api.Add(t.Context(), object(func(s *storagev1.CSIDriverSpec) { s.NodeAllocatableUpdatePeriodSeconds = new(int64(10)) })))
	b.eventually("more", func() bool { return b.limit() == 9 })
	b.script.set(func() { b.script.fail["info"] = errDriver })
	b.eventually("told of a failure", func() bool {
		return strings.Contains(log.String(), "a CSI driver could not be asked how many volumes the node can have")
	})
	b.allow(0)
	b.script.set(func() { delete(b.script.fail, "info") })
	b.eventually("without a limit", func() bool { return b.limit() == -1 })
}

// counting counts how often CSIDrivers are read.
type counting struct {
	client.Client
	reads *atomic.Int64
}

func (c counting) Get(ctx context.Context, t client.Target) (runtime.Object, error) {
	if t.Resource.Resource == "csidrivers" {
		c.reads.Add(1)
	}
	return c.Client.Get(ctx, t)
}

// TestDriverThatLeft: nobody looks any more how often a driver wants to be asked that has left.
func TestDriverThatLeft(t *testing.T) {
	b := start(t, csi.Options{})
	var reads atomic.Int64
	b.client = counting{b.api, &reads}
	b.restart()
	b.eventually("looked up more than once", func() bool { return reads.Load() > 3 })
	b.leave()
	b.leave = func() {}
	b.eventually("gone", func() bool { return len(b.published()) == 0 })
	b.eventually("no longer looked up", func() bool {
		before := reads.Load()
		time.Sleep(20 * b.options.Period)
		return reads.Load() == before
	})
}

// TestLimitAfterRegistration: a driver that registers again may have another limit.
func TestLimitAfterRegistration(t *testing.T) {
	b := start(t, csi.Options{})
	b.allow(3)
	b.restart()
	if got := b.limit(); got != 3 {
		t.Errorf("got %d", got)
	}
}

// TestEntryIsReplaced: a driver that calls the node something else, or has another topology, registers all the same, though
// that is immutable in an entry.
func TestEntryIsReplaced(t *testing.T) {
	b := start(t, csi.Options{})
	for _, info := range []*csispec.NodeGetInfoResponse{
		{NodeId: "n-2", MaxVolumesPerNode: 7, AccessibleTopology: &csispec.Topology{Segments: map[string]string{"example.com/zone": "z"}}},
		{NodeId: "n-2", AccessibleTopology: &csispec.Topology{Segments: map[string]string{"example.com/rack": "r", "example.com/zone": "z"}}},
		{NodeId: "n-2"},
	} {
		b.script.set(func() { b.script.info = info })
		b.restart()
		if s := b.status(); !s.GetPluginRegistered() {
			t.Errorf("%v: refused with %s", info, s.GetError())
		}
		d := b.published()
		if len(d) != 1 || d[0].NodeID != "n-2" || len(d[0].TopologyKeys) != len(info.GetAccessibleTopology().GetSegments()) || (d[0].Allocatable != nil) != (info.GetMaxVolumesPerNode() > 0) {
			t.Errorf("%v: %+v", info, d)
		}
	}
}

// TestAttachmentLimit: a volume that cannot be attached since the node has too many is told from others that are missing, and
// the driver asked at once how many it can be, if it wants to be asked at all.
func TestAttachmentLimit(t *testing.T) {
	code := func(c codes.Code) *int32 { return new(int32(c)) } //nolint:gosec // a code
	for name, test := range map[string]struct {
		period *int64
		status storagev1.VolumeAttachmentStatus
		limit  bool
	}{
		"exhausted":        {new(int64(1000)), storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{ErrorCode: code(codes.ResourceExhausted)}}, true},
		"not asked":        {nil, storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{ErrorCode: code(codes.ResourceExhausted)}}, false},
		"another error":    {new(int64(1000)), storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{ErrorCode: code(codes.Internal)}}, false},
		"without a code":   {new(int64(1000)), storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "full"}}, false},
		"without an error": {new(int64(1000)), storagev1.VolumeAttachmentStatus{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, csi.Options{}, object(func(s *storagev1.CSIDriverSpec) {
				s.AttachRequired, s.NodeAllocatableUpdatePeriodSeconds = new(true), test.period
			}), &storagev1.VolumeAttachment{
				ObjectMeta: metav1.ObjectMeta{Name: attachdetach.AttachmentName("h", driverName, "node")},
				Spec:       storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
				Status:     test.status,
			})
			b.allow(1)
			want := []string{"Volume not attached according to node status for volume \"\" : waiting for the attach-detach controller"}
			var got []string
			for range 2 {
				err := b.setUp(mountOf("p"))
				if got = append(got, err.Error()); errors.Is(err, claims.ErrAttachLimit) != test.limit {
					t.Errorf("%v", err)
				}
			}
			if !slices.Equal(slices.Compact(got), want) {
				t.Errorf("%q", got)
			}
			if test.limit {
				b.took("info") // once
				if b.limit() != 1 {
					t.Errorf("the limit is %d", b.limit())
				}
				b.script.set(func() { b.script.fail["info"] = errDriver })
				if err := b.setUp(mountOf("q")); !errors.Is(err, claims.ErrAttachLimit) {
					t.Errorf("%v", err)
				}
			} else {
				b.took("")
			}
		})
	}
}
