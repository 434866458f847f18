package extender

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// Review asks on which of the nodes to preempt which pods. An Ignorable program that fails changes nothing.
func (e *Extender) Review(ctx context.Context, t *scheduler.Trial, nodes map[string]plugins.Victims) (map[string]plugins.Victims, error) {
	if !e.Preempts() || !e.interested(t.Pod()) {
		return nodes, nil
	}
	var answer preempted
	err := e.ask(ctx, e.c.Preempt, e.preemption(t.Pod(), nodes), &answer)
	var left map[string]plugins.Victims
	if err == nil {
		left, err = e.victims(answer.NodeNameToMetaVictims, t.Snapshot())
	}
	if err != nil && e.c.Ignorable {
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if len(left[name].Pods) > 0 {
			continue
		}
		if !e.c.Ignorable {
			return nil, fmt.Errorf("expected at least one victim pod on node %q", name)
		}
		delete(left, name)
	}
	return left, nil
}

func (e *Extender) preemption(pod *corev1.Pod, nodes map[string]plugins.Victims) *preemption {
	question := &preemption{Pod: pod}
	if !e.c.NodeCacheCapable {
		question.NodeNameToVictims = map[string]*victims{}
		for name, v := range nodes {
			question.NodeNameToVictims[name] = &victims{Pods: v.Pods, NumPDBViolations: int64(v.Violations)}
		}
		return question
	}
	question.NodeNameToMetaVictims = map[string]*metaVictims{}
	for name, v := range nodes {
		meta := &metaVictims{Pods: []*metaPod{}, NumPDBViolations: int64(v.Violations)}
		for _, p := range v.Pods {
			meta.Pods = append(meta.Pods, &metaPod{UID: string(p.UID)})
		}
		question.NodeNameToMetaVictims[name] = meta
	}
	return question
}

// victims finds the pods of an answer.
func (e *Extender) victims(answer map[string]*metaVictims, s *scheduler.Snapshot) (map[string]plugins.Victims, error) {
	left := map[string]plugins.Victims{}
	for _, name := range slices.Sorted(maps.Keys(answer)) {
		node, meta := s.Node(name), answer[name]
		if node == nil {
			return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
		}
		if meta == nil {
			meta = &metaVictims{}
		}
		v := plugins.Victims{Violations: int(meta.NumPDBViolations)}
		for _, m := range meta.Pods {
			i := slices.IndexFunc(node.Pods, func(p *scheduler.PodInfo) bool { return m != nil && string(p.Pod.UID) == m.UID })
			if i < 0 {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", e.c.URL, m, name)
			}
			v.Pods = append(v.Pods, node.Pods[i].Pod)
		}
		left[name] = v
	}
	return left, nil
}
