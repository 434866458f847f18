package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// use reports that the node uses a volume, so that it is not detached, and returns the node as it is then.
func (d *Drivers) use(ctx context.Context, volume corev1.UniqueVolumeName) (*corev1.Node, error) {
	d.mu.Lock()
	d.inUse[volume], d.quiet = true, false
	d.mu.Unlock()
	return d.report(ctx)
}

// unuse reports that the node does not use a volume any more. If that gets lost, Run repeats it.
func (d *Drivers) unuse(ctx context.Context, volume corev1.UniqueVolumeName) {
	d.mu.Lock()
	used := d.inUse[volume]
	delete(d.inUse, volume)
	d.quiet = d.quiet && !used
	d.mu.Unlock()
	if !used {
		return
	}
	if _, err := d.report(ctx); err != nil {
		d.log.Warn("reporting the volumes in use failed", "error", err)
	}
}

func (d *Drivers) readNode(ctx context.Context) (*corev1.Node, error) {
	node, err := client.As[*corev1.Node](d.in.Client.Get(ctx, d.nodeTarget("")))
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", d.node, err)
	}
	return node, nil
}

func (d *Drivers) nodeTarget(subresource string) client.Target {
	return client.Target{Resource: corev1.SchemeGroupVersion.WithResource("nodes"), Name: d.node, Subresource: subresource}
}

// report brings status.volumesInUse up to date and returns the node.
func (d *Drivers) report(ctx context.Context) (*corev1.Node, error) {
	select {
	case d.reporting <- struct{}{}:
		defer func() { <-d.reporting }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	node, err := d.readNode(ctx)
	if err != nil {
		return nil, err
	}
	want := d.used(node.Status.VolumesInUse)
	if slices.Equal(want, node.Status.VolumesInUse) {
		d.reported(want)
		return node, nil
	}
	type status struct {
		VolumesInUse []corev1.UniqueVolumeName `json:"volumesInUse"`
	}
	encoded, _ := json.Marshal(map[string]status{"status": {want}}) //nolint:errchkjson // strings marshal
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: encoded}
	node, err = client.As[*corev1.Node](d.in.Client.Patch(ctx, d.nodeTarget("status"), patch, metav1.PatchOptions{}))
	if err != nil {
		return nil, fmt.Errorf("reporting the volumes in use: %w", err)
	}
	d.reported(want)
	return node, nil
}

// reported records that a report has arrived.
func (d *Drivers) reported(volumes []corev1.UniqueVolumeName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.quiet = len(d.inUse) == 0 && !slices.ContainsFunc(volumes, isCSI)
}

// hasReported reports whether the node is known to be reported without volumes.
func (d *Drivers) hasReported() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.quiet
}

// used are the volumes in use, sorted, with those of others that were reported.
func (d *Drivers) used(reported []corev1.UniqueVolumeName) []corev1.UniqueVolumeName {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []corev1.UniqueVolumeName{}
	for _, name := range reported {
		if !isCSI(name) {
			all = append(all, name)
		}
	}
	for name := range d.inUse {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func isCSI(name corev1.UniqueVolumeName) bool {
	const prefix = pluginName + "/"
	return len(name) > len(prefix) && string(name[:len(prefix)]) == prefix
}

// recall notes what earlier processes have mounted.
func (d *Drivers) recall() error {
	all, err := d.published()
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, known := range all {
		if known.Attachable != "" {
			d.inUse[uniqueName(known.Driver, known.Handle)] = true
		}
	}
	return nil
}
