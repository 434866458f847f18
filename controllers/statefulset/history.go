package statefulset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers/internal/revisions"
	"github.com/keelson-dev/keelson/podspec"
)

// history is what the revisions of a set say.
type history struct {
	current, update *appsv1.ControllerRevision
	collisions      int32
}

// revise returns the revision that the set has and the one that its pods are to have; at first they are the same.
// Unless the last revision has the set's template, revise makes one that has the last.
func (c *Controller) revise(ctx context.Context, set *appsv1.StatefulSet, sorted []*appsv1.ControllerRevision) (history, error) {
	var h history
	if set.Status.CollisionCount != nil {
		h.collisions = *set.Status.CollisionCount
	}
	data, err := revisions.Data(&set.Spec.Template)
	if err != nil {
		return h, err
	}
	equal := revisions.FindEqual(sorted, data)
	switch last := len(sorted) - 1; {
	case len(equal) > 0 && bytes.Equal(sorted[last].Data.Raw, data):
		h.update = sorted[last]
	case len(equal) > 0: // the template is an older one again
		h.update, err = revisions.SetNumber(ctx, c.client, equal[len(equal)-1], revisions.Next(sorted))
	case last >= 0 && sameDefaulted(sorted[last], data):
		h.update = sorted[last]
	default:
		made := revisions.New(set, kind(), &set.Spec.Template, data, revisions.Next(sorted))
		h.update, h.collisions, err = revisions.Create(ctx, c.client, set.Name, made, h.collisions)
	}
	if err != nil {
		return history{collisions: h.collisions}, err
	}
	h.current = h.update
	if at := slices.IndexFunc(sorted, func(r *appsv1.ControllerRevision) bool { return r.Name == set.Status.CurrentRevision }); at >= 0 {
		h.current = sorted[at]
	}
	return h, nil
}

// sameDefaulted reports whether a revision holds those data, apart from defaults that were not set when it was stored.
func sameDefaulted(r *appsv1.ControllerRevision, data []byte) bool {
	template, err := templateOf(r)
	if err != nil {
		return false
	}
	podspec.Default(&template.Spec)
	again, err := revisions.Data(template)
	return err == nil && bytes.Equal(again, data)
}

func versionOf(r *appsv1.ControllerRevision) (version, error) {
	template, err := templateOf(r)
	return version{r.Name, template}, err
}

// templateOf returns the template in a revision.
func templateOf(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data map[string]map[string]json.RawMessage
	var replaced struct {
		corev1.PodTemplateSpec `json:",inline"`
		Patch                  string `json:"$patch"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("revision %s: %w", r.Name, err)
	}
	template, ok := data["spec"]["template"]
	if !ok || len(data) != 1 || len(data["spec"]) != 1 {
		return nil, fmt.Errorf("revision %s: the data do not only replace the template", r.Name)
	}
	if err := json.Unmarshal(template, &replaced); err != nil {
		return nil, fmt.Errorf("revision %s: %w", r.Name, err)
	}
	if replaced.Patch != "replace" {
		return nil, fmt.Errorf("revision %s: the data do not replace the template", r.Name)
	}
	return &replaced.PodTemplateSpec, nil
}

// truncate deletes the oldest revisions beyond the limit of the set. Those of pods, and those of h, do not count.
func (c *Controller) truncate(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, sorted []*appsv1.ControllerRevision, h history) error {
	used := map[string]bool{}
	for _, r := range []*appsv1.ControllerRevision{h.current, h.update} {
		if r != nil {
			used[r.Name] = true
		}
	}
	for _, pod := range pods {
		used[revisionOf(pod)] = true
	}
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	excess := revisions.Excess(sorted, int(*set.Spec.RevisionHistoryLimit), func(r *appsv1.ControllerRevision) bool { return used[r.Name] })
	return revisions.Delete(ctx, c.client, excess)
}
