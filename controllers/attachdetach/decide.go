package attachdetach

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	patience = 2 * time.Minute // how long an attempt to attach or detach takes at most
	settle   = 500 * time.Millisecond
	grace    = 6 * time.Minute // after which volumes are taken from nodes that are not ready

	firstRetry, lastRetry = 500 * time.Millisecond, 2*time.Minute + 2*time.Second
)

// place is a volume on a node.
type place struct {
	volume corev1.UniqueVolumeName
	node   string
}

// trial is what the controller remembers of a place.
type trial struct {
	since    time.Time // when the running attempt to attach began; zero if none runs
	created  bool      // the attempt has made an attachment
	failures int       // in a row
	retry    time.Time // when the next attempt may begin
	told     bool      // the pods know that the volume is on another node
	unneeded time.Time // since when nobody needs the volume there
	deleted  types.UID // the attachment that was to be deleted
	leaving  time.Time // when that was
}

// verb is what a step does.
type verb int

const (
	tell   verb = iota // only its events
	create             // the attachment
	detach             // take the volume out of the report, then delete the attachment
	report             // that the volume is attached
	forget             // that it was
)

// step is one thing to do. Its events are recorded once it is done.
type step struct {
	verb verb
	place
	volume  *volume
	careful bool // detach: only if the node does not use the volume, according to the server
	events  []told
}

// told is an event of a pod.
type told struct {
	pod                    *corev1.Pod
	level, reason, message string
}

// plan is what to do now, what to remember, and when to look again; zero means not before something changes.
type plan struct {
	steps []step
	after map[place]trial
	wake  time.Time
}

// decide plans what is to be done about all volumes.
func decide(w *world, before map[place]trial, now time.Time) *plan {
	p := &plan{after: map[place]trial{}}
	d := decision{w, before, now, p}
	for _, name := range slices.Sorted(maps.Keys(w.volumes)) {
		v := w.volumes[name]
		// Volumes are detached first, so that pods that have moved get them.
		for _, node := range slices.Sorted(maps.Keys(w.hosts)) {
			if w.hosts[node].reported[name] && v.users[node] == nil && v.attachments[node] == nil {
				d.leave(v, node)
			}
		}
		for _, node := range slices.Sorted(maps.Keys(v.attachments)) {
			if v.users[node] == nil {
				d.leave(v, node)
			}
		}
		for _, node := range slices.Sorted(maps.Keys(v.users)) {
			d.come(v, node)
		}
	}
	return p
}

type decision struct {
	w      *world
	before map[place]trial
	now    time.Time
	*plan
}

func (d *decision) wakeAt(t time.Time) {
	if d.wake.IsZero() || t.Before(d.wake) {
		d.wake = t
	}
}

func (d *decision) do(v verb, at *volume, node string, events ...told) {
	d.steps = append(d.steps, step{verb: v, place: place{at.name, node}, volume: at, events: events})
}

// remembered returns the newest memory of a place.
func (d *decision) remembered(at place) trial {
	if t, ok := d.after[at]; ok {
		return t
	}
	return d.before[at]
}

// going reports whether an attachment is being deleted, even if the cache does not know it yet.
func (t trial) going(va *storagev1.VolumeAttachment) bool {
	return va != nil && (va.DeletionTimestamp != nil || t.deleted != "" && t.deleted == va.UID)
}

// leave sees to a volume on a node where no pod needs it.
func (d *decision) leave(v *volume, node string) {
	at := place{v.name, node}
	old := d.before[at]
	t := trial{unneeded: old.unneeded, deleted: old.deleted, leaving: old.leaving}
	if t.unneeded.IsZero() {
		t.unneeded = d.now
	}
	defer func() { d.after[at] = t }()
	va, h := v.attachments[node], d.w.host(node)
	if t.going(va) {
		if t.leaving.IsZero() {
			t.leaving = d.now
		}
		if h.reported[v.name] {
			d.do(forget, v, node)
		}
		return
	}
	expired := d.now.Sub(t.unneeded) > grace
	if h.uses(v.name) && !h.outOfService && (!expired || h.ready) {
		if !expired {
			d.wakeAt(t.unneeded.Add(grace + time.Nanosecond))
		}
		return
	}
	if va != nil {
		t.deleted = va.UID
	}
	t.leaving = d.now
	d.steps = append(d.steps, step{verb: detach, place: at, volume: v, careful: !expired && !h.outOfService})
}

// come sees to a volume on a node whose pods need it.
func (d *decision) come(v *volume, node string) {
	at := place{v.name, node}
	t := d.before[at]
	t.unneeded = time.Time{}
	va, reported := v.attachments[node], d.w.host(node).reported[v.name]
	going := t.going(va)
	if va == nil {
		t.deleted, t.leaving = "", time.Time{}
	}
	if va != nil && va.Status.Attached && !going {
		d.after[at] = trial{told: t.told}
		if !reported {
			d.do(report, v, node, toAll(v.users[node], corev1.EventTypeNormal, "SuccessfulAttachVolume",
				fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", v.called()))...)
		}
		return
	}
	if reported {
		d.do(forget, v, node)
	}
	switch {
	case d.detaching(t, va, going):
	case v.exclusive() && d.elsewhere(v, node, &t):
	default:
		d.attempt(v, node, &t, going)
	}
	d.after[at] = t
}

// detaching reports whether the driver has begun to detach a volume and may still succeed.
func (d *decision) detaching(t trial, va *storagev1.VolumeAttachment, going bool) bool {
	if !going || t.leaving.IsZero() || va.Status.DetachError != nil || !d.now.Before(t.leaving.Add(patience)) {
		return false
	}
	d.wakeAt(t.leaving.Add(patience))
	return true
}

// elsewhere reports whether a volume that can be on one node only has to leave another one first. Its pods are told,
// once, unless it is about to leave.
func (d *decision) elsewhere(v *volume, node string, t *trial) bool {
	var attached []string
	for _, other := range slices.Sorted(maps.Keys(v.attachments)) {
		if other == node {
			continue
		}
		va, there := v.attachments[other], d.remembered(place{v.name, other})
		going := there.going(va)
		switch {
		case d.detaching(there, va, going):
			return true
		case !there.since.IsZero() && v.users[other] != nil && !va.Status.Attached:
			return true // it is being attached there
		case va.Status.Attached && !going:
			attached = append(attached, other)
		}
	}
	for _, other := range slices.Sorted(maps.Keys(v.users)) {
		if other != node && v.attachments[other] == nil && !d.remembered(place{v.name, other}).since.IsZero() {
			return true
		}
	}
	if len(attached) > 0 && !t.told {
		t.told = true
		d.do(tell, v, node, waiting(v, node, attached)...)
	}
	return len(attached) > 0
}

// waiting are the events of pods whose volume is on another node. They name pods of the same namespace only.
func waiting(v *volume, node string, attached []string) []told {
	var others []*corev1.Pod
	for _, other := range attached {
		others = append(others, v.users[other]...)
	}
	var out []told
	for _, pod := range v.users[node] {
		var near []string
		far := 0
		for _, other := range others {
			if other.Namespace == pod.Namespace {
				near = append(near, other.Name)
			} else {
				far++
			}
		}
		why := "Volume is already used by pod(s) " + strings.Join(near, ", ")
		switch {
		case len(others) == 0:
			why = "Volume is already exclusively attached to one node, waiting on detach before it can be attached to another node"
		case len(near) == 0:
			why = fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", far)
		case far > 0:
			why += fmt.Sprintf(" and %d pod(s) in different namespaces", far)
		}
		out = append(out, told{pod, corev1.EventTypeWarning, "FailedAttachVolume", fmt.Sprintf("Waiting for detach for volume %q %s", v.called(), why)})
	}
	return out
}

// attempt begins an attempt to attach a volume, or looks how it goes.
func (d *decision) attempt(v *volume, node string, t *trial, going bool) {
	if t.since.IsZero() {
		if d.now.Before(t.retry) {
			d.wakeAt(t.retry)
			return
		}
		t.since, t.created = d.now, false
	}
	va := v.attachments[node]
	switch settled := t.since.Add(settle); {
	case !d.now.Before(t.since.Add(patience)):
		d.fail(v, node, t, fmt.Sprintf("timed out waiting for external-attacher of %s CSI driver to attach volume %s", v.driver, v.handle))
	case va == nil && !t.created:
		t.created = true
		d.do(create, v, node)
		d.wakeAt(t.since.Add(patience))
	case va == nil:
		d.wakeAt(t.since.Add(patience)) // the cache does not have it yet
	case d.now.Before(settled):
		d.wakeAt(settled) // an error may be that of the last attempt
	case going:
		d.fail(v, node, t, "volume attachment is being deleted")
	case va.Status.AttachError != nil:
		d.fail(v, node, t, va.Status.AttachError.Message)
	default:
		d.wakeAt(t.since.Add(patience))
	}
}

// fail ends an attempt; the next one waits longer.
func (d *decision) fail(v *volume, node string, t *trial, why string) {
	d.do(tell, v, node, failed(v, node, why)...)
	t.end(d.now)
	d.wakeAt(t.retry)
}

// end ends a failed attempt.
func (t *trial) end(now time.Time) {
	t.since, t.created = time.Time{}, false
	t.retry = now.Add(min(firstRetry<<min(t.failures, 10), lastRetry))
	t.failures++
}

func failed(v *volume, node, why string) []told {
	return toAll(v.users[node], corev1.EventTypeWarning, "FailedAttachVolume",
		fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", v.called(), why))
}

func toAll(all []*corev1.Pod, level, reason, message string) []told {
	var out []told
	for _, pod := range all {
		out = append(out, told{pod, level, reason, message})
	}
	return out
}
