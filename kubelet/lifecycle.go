package kubelet

import (
	"context"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/internal/pause"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// follow wakes the workers of pods for which the runtime sends events.
func (k *Kubelet) follow(ctx context.Context) {
	down := false
	for ctx.Err() == nil {
		err := k.followOnce(ctx, func() {
			if down {
				k.node.reportNow()
			}
			down = false
			k.pokeAll() // there were no events for what happened before
		})
		if ctx.Err() == nil && !down {
			k.log.Warn("the container runtime's events broke off", "error", err)
			k.node.reportNow()
			down = true
		}
		_ = pause.For(ctx, plegPeriod) // the loop checks the context
	}
}

// followOnce follows the events until they break off; it calls open when they have begun.
func (k *Kubelet) followOnce(ctx context.Context, open func()) error {
	stream, err := k.source.Events(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	open()
	for {
		list, err := stream.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range list {
			if w, ok := k.worker(types.UID(e.Pod.UID)); ok {
				w.poke()
			}
		}
	}
}

func (k *Kubelet) pokeAll() {
	k.pods.mu.Lock()
	defer k.pods.mu.Unlock()
	for _, w := range k.pods.workers {
		w.poke()
	}
}

// relist periodically lists everything in the runtime, to find pods that changed without an event and pods that no
// longer exist.
func (k *Kubelet) relist(ctx context.Context, group *sync.WaitGroup) {
	period := relistPeriod
	if k.source == nil {
		period = plegPeriod
	}
	var last map[types.UID]podStates
	for {
		states, err := k.survey(ctx)
		if err != nil && ctx.Err() == nil {
			k.log.Warn("listing the runtime's pods failed", "error", err)
		}
		if err == nil {
			for uid, state := range states {
				w, known := k.worker(uid)
				switch {
				case !known:
					k.adopt(ctx, group, uid, state)
				case last != nil && !reflect.DeepEqual(last[uid], state):
					w.poke()
				}
			}
			for uid := range last {
				if w, known := k.worker(uid); known && states[uid].name == "" {
					w.poke() // all of it was removed behind our back
				}
			}
			last = states
			k.releaseOrphans(ctx)
		}
		if pause.For(ctx, period) != nil {
			return
		}
	}
}

// releaseOrphans removes what the host holds for pods that neither the runtime nor the API knows.
func (k *Kubelet) releaseOrphans(ctx context.Context) {
	host := k.options.Host
	live := func(uid types.UID) bool { return !k.Gone(uid) }
	forget := func(_ context.Context, uid types.UID) error { return host.Memory.Forget(uid) }
	type holder struct {
		Orphans
		of func(context.Context, types.UID) error
	}
	holders := []holder{{host.Volumes, host.Volumes.Release}, {host.Cgroups, host.Cgroups.Remove}, {host.Memory, forget}}
	if claims := host.Devices.Claims; claims != nil {
		holders = append(holders, holder{claims, claims.Release})
	}
	if plugins := host.Devices.Plugins; plugins != nil {
		holders = append(holders, holder{plugins, plugins.Release})
	}
	for _, release := range holders {
		uids, err := release.Orphans.Orphans(live)
		if err != nil {
			k.log.Warn("finding what pods left behind failed", "error", err)
		}
		for _, uid := range uids {
			if err := release.of(ctx, uid); err != nil && ctx.Err() == nil {
				k.log.Warn("releasing what a pod left behind failed", "uid", uid, "error", err)
			}
		}
	}
}

// podStates is a rough picture of a pod in the runtime.
type podStates struct {
	namespace, name string
	sandboxes       map[string]cri.SandboxState
	containers      map[string]cri.ContainerState
}

func (k *Kubelet) survey(ctx context.Context) (map[types.UID]podStates, error) {
	sandboxes, err := k.runtime.ListSandboxes(ctx, cri.Filter{})
	if err != nil {
		return nil, err
	}
	containers, err := k.runtime.ListContainers(ctx, cri.Filter{})
	if err != nil {
		return nil, err
	}
	all := map[types.UID]podStates{}
	at := func(labels map[string]string) (podStates, types.UID) {
		uid := types.UID(labels[cri.LabelPodUID])
		s, ok := all[uid]
		if !ok {
			s = podStates{
				namespace: labels[cri.LabelPodNamespace], name: labels[cri.LabelPodName],
				sandboxes: map[string]cri.SandboxState{}, containers: map[string]cri.ContainerState{},
			}
			all[uid] = s
		}
		return s, uid
	}
	for _, s := range sandboxes {
		if p, uid := at(s.Labels); uid != "" {
			p.sandboxes[s.ID] = s.State
		}
	}
	for _, c := range containers {
		if p, uid := at(c.Labels); uid != "" {
			p.containers[c.ID] = c.State
		}
	}
	delete(all, "") // not ours
	return all, nil
}

// adopt starts a worker to stop and remove a pod that is in the runtime but not in the API: it was deleted while no
// kubelet was running. A pod that is just being added is left alone.
func (k *Kubelet) adopt(ctx context.Context, group *sync.WaitGroup, uid types.UID, state podStates) {
	for _, source := range []*informer.Informer[*corev1.Pod]{k.sources.Pods, k.sources.Static} {
		if source == nil {
			continue
		}
		if pod, ok := source.Get(state.namespace, state.name); ok && pod.UID == uid {
			return
		}
	}
	now := metav1.Now()
	second := int64(1)
	w := newWorker(k.parts, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: state.namespace, Name: state.name, UID: uid,
		DeletionTimestamp: &now, DeletionGracePeriodSeconds: &second,
	}})
	w.inbox.gone = true
	k.pods.mu.Lock()
	_, raced := k.pods.workers[uid]
	if !raced {
		k.pods.workers[uid] = w
	}
	k.pods.mu.Unlock()
	if !raced {
		k.start(ctx, group, w)
	}
}

// reject makes the worker reject its pod: nothing of it may run, and it has failed.
func (w *worker) reject(pod *corev1.Pod, why Refusal) {
	w.podEvent(pod, corev1.EventTypeWarning, why.Reason, "%s", why.Message)
	w.observer.Rejected(why.Reason)
	w.rejected = true
	w.inbox.release()
	w.stage = decision.Terminating
	w.status = decision.Refused(pod, why.Reason, why.Message, time.Now())
}
