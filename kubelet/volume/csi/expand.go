package csi

import (
	"context"
	"encoding/json"
	"fmt"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/events"
)

// expand has a mounted volume expanded at the node if it has grown, and says so in the status of its claim. A pod has
// its volume, even if that fails.
func (d *Drivers) expand(ctx context.Context, s *source, target string) {
	if !s.grown() {
		return
	}
	err := d.expandTo(ctx, s, target, s.Persistent.Spec.Capacity.Storage().Value())
	if err == nil {
		err = d.expanded(ctx, s)
	}
	if err != nil {
		d.tell(s, corev1.EventTypeWarning, "VolumeResizeFailed", fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %v", s.Name(), err))
		d.log.Warn("expanding a volume failed", "volume", s.Name(), "error", err)
		return
	}
	d.tell(s, corev1.EventTypeNormal, "FileSystemResizeSuccessful", fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", s.Name(), d.node))
}

// grown reports whether a volume is larger than its claim knows.
func (s *source) grown() bool {
	if s.Persistent == nil || s.readOnly {
		return false
	}
	has := s.Claim.Status.Capacity.Storage()
	return !has.IsZero() && has.Cmp(*s.Persistent.Spec.Capacity.Storage()) < 0
}

func (d *Drivers) expandTo(ctx context.Context, s *source, target string, size int64) error {
	driver, err := d.driver(s.driver)
	if err != nil {
		return err
	}
	defer driver.close()
	can, err := driver.abilities(ctx)
	if err != nil {
		return err
	}
	if !can[csispec.NodeServiceCapability_RPC_EXPAND_VOLUME] {
		return nil // the file system needs nothing
	}
	request := &csispec.NodeExpandVolumeRequest{
		VolumeId: s.handle, VolumePath: target, CapacityRange: &csispec.CapacityRange{RequiredBytes: size}, VolumeCapability: s.capability(can, nil),
	}
	if can[csispec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME] {
		request.StagingTargetPath = d.stagingPath(s.driver, s.handle)
	}
	if request.Secrets, err = d.secrets(ctx, s.Persistent.Spec.CSI.NodeExpandSecretRef, "NodeExpandSecretRef"); err != nil {
		return err
	}
	_, err = driver.NodeExpandVolume(ctx, request)
	return err
}

// expanded says in a claim's status that its volume has the size that it has.
func (d *Drivers) expanded(ctx context.Context, s *source) error {
	type condition struct {
		Patch string                                    `json:"$patch"`
		Type  corev1.PersistentVolumeClaimConditionType `json:"type"`
	}
	type status struct {
		Capacity   corev1.ResourceList             `json:"capacity"`
		Statuses   map[corev1.ResourceName]*string `json:"allocatedResourceStatuses"`
		Conditions []condition                     `json:"conditions,omitempty"`
	}
	change := status{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: *s.Persistent.Spec.Capacity.Storage()},
		Statuses: map[corev1.ResourceName]*string{corev1.ResourceStorage: nil},
	}
	for _, c := range s.Claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending || c.Type == corev1.PersistentVolumeClaimResizing {
			change.Conditions = append(change.Conditions, condition{"delete", c.Type})
		}
	}
	patch, err := json.Marshal(map[string]status{"status": change})
	if err != nil {
		return fmt.Errorf("encoding the status of a claim: %w", err)
	}
	at := client.Target{
		Resource:  corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		Namespace: s.Claim.Namespace, Name: s.Claim.Name, Subresource: "status",
	}
	_, err = d.in.Client.Patch(ctx, at, client.Patch{Type: types.StrategicMergePatchType, Data: patch}, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("mounting volume with resize: %w", err)
	}
	return nil
}

// tell records an event of the pod and of its claim.
func (d *Drivers) tell(s *source, level, reason, message string) {
	for kind, obj := range map[string]metav1.Object{"Pod": s.Pod, "PersistentVolumeClaim": s.Claim} {
		d.options.Recorder.Record(events.Event{
			Regarding: events.About(corev1.SchemeGroupVersion.WithKind(kind), obj), Type: level, Reason: reason, Message: message,
		})
	}
}
