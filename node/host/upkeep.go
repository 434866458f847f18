package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/cgroup"
	"github.com/keelson-dev/keelson/kubelet/checkpoint"
	"github.com/keelson-dev/keelson/kubelet/decision"
	"github.com/keelson-dev/keelson/kubelet/eviction"
	"github.com/keelson-dev/keelson/kubelet/garbage"
	"github.com/keelson-dev/keelson/kubelet/machine"
	"github.com/keelson-dev/keelson/kubelet/shutdown"
	"github.com/keelson-dev/keelson/kubelet/stats"
	"github.com/keelson-dev/keelson/kubelet/stats/activity"
	"github.com/keelson-dev/keelson/kubelet/volume"
)

// upkeep maintains a node while pods come and go. It is complete once the kubelet is set.
type upkeep struct {
	kubelet   *kubelet.Kubelet
	stats     *stats.Collector
	evictor   *eviction.Evictor
	collector *garbage.Collector
	activity  *activity.Metrics
	shutdown  *shutdown.Manager // nil if pods are not ended before the machine goes down
}

// counts are the kubelet's present numbers.
func (u *upkeep) counts() activity.Counts {
	var c activity.Counts
	c.Containers = map[string]int{}
	for _, pod := range u.kubelet.Pods() {
		running := false
		for _, s := range pod.Status.ContainerStatuses {
			switch {
			case s.State.Running != nil:
				running = true
				c.Containers["running"]++
			case s.State.Terminated != nil:
				c.Containers["exited"]++
			}
		}
		if running {
			c.Pods++
		}
	}
	return c
}

// PodStarted implements kubelet.Observer.
func (u *upkeep) PodStarted(created, seen, running time.Time) {
	u.activity.PodStarted(activity.Start{Created: created, Seen: seen, Running: running})
}

// PodSynced implements kubelet.Observer.
func (u *upkeep) PodSynced(took time.Duration) { u.activity.PodSynced("sync", took) }

// Rejected implements kubelet.Observer.
func (u *upkeep) Rejected(reason string) { u.activity.Rejected(reason) }

// startUpkeep measures the node's resource usage, evicts pods when it runs short, and removes what is no longer needed.
func (h *Host) startUpkeep(u *upkeep, tree *cgroup.Tree, found machine.Machine) error {
	o, p := h.options, h.parts
	images, _ := h.runtime.(cri.FilesystemReader)
	u.kubelet = h.kubelet
	var err error
	u.stats, err = stats.New(p.Name, h.runtime, machine.Reader{}, stats.Options{
		Images: images, Pods: h.kubelet.Pods, PodsMemory: tree.Memory, Volume: stats.VolumeDir(o.Dir),
		NodeDir: nearest(o.Dir), LogDir: o.LogDir, Started: time.Now(), MaxProcesses: found.MaxProcesses, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	node := corev1.ObjectReference{Kind: "Node", Name: p.Name, UID: types.UID(p.Name)}
	u.collector, err = garbage.New(h.runtime, h.kubelet, garbage.Options{
		Images: o.Upkeep.Images, Collected: u.activity.ImageCollected, ImageUses: u.imageVolumes, LogDir: o.LogDir, Recorder: p.Recorder, Node: node, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	settings := eviction.Options{
		Thresholds: o.Upkeep.Thresholds, Transition: o.Upkeep.Transition, MaxGrace: o.Upkeep.MaxGrace, Evicted: u.activity.Evicted,
		Reclaimer: u.collector, Recorder: p.Recorder, Node: node, Changed: h.kubelet.Report, Logger: o.Logger,
	}
	if images != nil {
		settings.Layout = eviction.FindLayout(images, nearest(o.Dir), machine.Disk)
	}
	if u.evictor, err = eviction.New(evicted{h.kubelet}, u.stats, settings); err != nil {
		return err
	}
	h.runs = append(h.runs, u.stats, u.collector, u.evictor)
	if o.Shutdown.Inhibitor == nil {
		return nil
	}
	u.shutdown, err = shutdown.New(evicted{h.kubelet}, o.Shutdown.Inhibitor, o.Shutdown.Groups, shutdown.Options{
		Recorder: p.Recorder, Node: node, Changed: h.kubelet.Report, Logger: o.Logger,
	})
	h.runs = append(h.runs, u.shutdown)
	return err
}

// problem is why the node is not ready although its runtime is.
func (u *upkeep) problem() error {
	if u.shutdown == nil {
		return nil
	}
	return u.shutdown.Problem()
}

// imageVolumes are the images used as volumes of pods.
func (u *upkeep) imageVolumes() []string {
	var names []string
	for _, pod := range u.kubelet.Pods() {
		for _, v := range volume.Images(pod) {
			names = append(names, v.Reference)
		}
	}
	return names
}

// Conditions implements kubelet.Pressure.
func (u *upkeep) Conditions() []corev1.NodeCondition {
	under := map[corev1.NodeConditionType]bool{}
	if u.evictor != nil {
		for _, t := range u.evictor.Conditions() {
			under[t] = true
		}
	}
	var list []corev1.NodeCondition
	for _, t := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		c, _ := eviction.Condition(t, under[t])
		list = append(list, c)
	}
	return list
}

// Admit implements kubelet.Admitter: it refuses pods that would make a shortage worse, and all while the machine goes
// down.
func (u *upkeep) Admit(pod *corev1.Pod) *kubelet.Refusal {
	if u.problem() != nil {
		return &kubelet.Refusal{Reason: shutdown.RejectedReason, Message: shutdown.RejectedMessage}
	}
	if message, ok := u.evictor.Admit(pod); !ok {
		return &kubelet.Refusal{Reason: eviction.Reason, Message: message}
	}
	return nil
}

// summary is for the node's server.
func (u *upkeep) summary(ctx context.Context) (statsv1alpha1.Summary, error) {
	s, err := u.stats.Summary(ctx)
	if err != nil {
		return statsv1alpha1.Summary{}, err
	}
	return *s, nil
}

// evicted is a kubelet whose pods can be evicted.
type evicted struct{ *kubelet.Kubelet }

func (e evicted) Pods() []*corev1.Pod { return e.Active() }

func (e evicted) Evict(ctx context.Context, why eviction.Eviction) error {
	return e.Kubelet.Evict(ctx, why.Pod.UID, kubelet.Eviction{
		Reason: eviction.Reason, Message: why.Message, Grace: why.Grace, Condition: why.Condition,
	})
}

// End implements shutdown.Pods.
func (e evicted) End(ctx context.Context, pod *corev1.Pod, grace int64, why corev1.PodCondition) error {
	return e.Kubelet.Evict(ctx, pod.UID, kubelet.Eviction{
		Reason: shutdown.Reason, Message: shutdown.Message, Grace: grace, Condition: &why,
	})
}

// remembered are the admitted pods, on disk.
type remembered struct{ *checkpoint.Pods }

func (r remembered) Admitted(uid types.UID) bool {
	_, known := r.Get(uid)
	return known
}

func (r remembered) Allocation(uid types.UID) (given decision.Allocation, inForce *decision.Allocation, ok bool) {
	pod, ok := r.Get(uid)
	given = decision.Allocation{Pod: pod.PodResources, Containers: pod.Resources}
	if pod.InForce != nil {
		set := decision.Allocation(*pod.InForce).Clone()
		inForce = &set
	}
	return given, inForce, ok
}

func (r remembered) SetInForce(uid types.UID, inForce *decision.Allocation) error {
	return r.Pods.SetInForce(uid, (*checkpoint.Allocation)(inForce))
}

func (r remembered) Waits(uid types.UID) map[string]kubelet.Wait {
	pod, _ := r.Get(uid)
	waits := make(map[string]kubelet.Wait, len(pod.Backoffs))
	for key, b := range pod.Backoffs {
		waits[key] = kubelet.Wait{Delay: b.Delay, Since: b.Updated}
	}
	return waits
}

func (r remembered) SetWait(uid types.UID, key string, w kubelet.Wait) error {
	return r.SetBackoff(uid, key, checkpoint.Backoff{Delay: w.Delay, Updated: w.Since})
}

// memory opens the checkpoints of earlier runs of the node's kubelet. Unreadable ones are set aside and logged.
func (h *Host) memory() (remembered, *checkpoint.Store, error) {
	store, err := checkpoint.New(h.options.Dir)
	if err != nil {
		return remembered{}, nil, fmt.Errorf("checkpoints of node %s: %w", h.parts.Name, err)
	}
	pods, err := checkpoint.Restore(store)
	if err != nil {
		h.options.Logger.Warn("starting without the checkpoint of admitted pods", "error", err)
	}
	return remembered{pods}, store, nil
}
