package simulated

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/keelson-dev/keelson/cri"
)

// RunPodSandbox makes a sandbox with an address of its own.
func (r *Runtime) RunPodSandbox(ctx context.Context, config cri.SandboxConfig) (string, error) {
	m := config.Metadata
	if m.Name == "" || m.Namespace == "" || m.UID == "" {
		return "", fmt.Errorf("sandbox without name, namespace or uid: %w", cri.ErrInvalid)
	}
	if err := r.perform(ctx, Operation{Verb: RunSandbox, Pod: m}); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := func(h cri.RuntimeHandler) bool { return h.Name == config.RuntimeHandler }
	if config.RuntimeHandler != "" && r.condition.Handlers != nil && !slices.ContainsFunc(r.condition.Handlers, known) {
		return "", fmt.Errorf("failed to get sandbox runtime: no runtime for %q is configured", config.RuntimeHandler)
	}
	name := fmt.Sprintf("%s_%s_%s_%d", m.Name, m.Namespace, m.UID, m.Attempt)
	if id, taken := r.byName[name]; taken {
		return "", fmt.Errorf("sandbox name %q is reserved for %q: %w", name, id, cri.ErrInvalid)
	}
	status := cri.SandboxStatus{
		Sandbox: cri.Sandbox{
			ID: identify(name), Metadata: m, CreatedAt: time.Now(),
			Labels: config.Labels, Annotations: config.Annotations, RuntimeHandler: config.RuntimeHandler,
		},
		Namespaces: config.Namespaces,
	}
	if config.Namespaces.Network != cri.NamespaceNode {
		ip, err := r.addresses.take(m.UID)
		if err != nil {
			return "", fmt.Errorf("failed to setup network for sandbox %q: %w", status.ID, err)
		}
		status.IPs = []string{ip.String()}
	}
	r.sandboxes[status.ID] = &sandbox{sequence: r.next(), status: copySandbox(status)}
	r.byName[name] = status.ID
	r.publish(cri.EventCreated, status.ID, m)
	r.publish(cri.EventStarted, status.ID, m)
	return status.ID, nil
}

// StopPodSandbox kills the sandbox's containers and frees its address.
func (r *Runtime) StopPodSandbox(ctx context.Context, id string) error {
	if err := r.perform(ctx, r.sandboxOperation(StopSandbox, id)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[id]; ok {
		r.stopSandbox(s)
	}
	return nil
}

func (r *Runtime) stopSandbox(s *sandbox) {
	for _, c := range r.containersOf(s) {
		r.exit(c, killedCode)
	}
	if s.status.State == cri.SandboxNotReady {
		return
	}
	s.status.State = cri.SandboxNotReady
	r.addresses.give(s.status.IPs)
	s.status.IPs = nil
	r.publish(cri.EventStopped, s.status.ID, s.status.Metadata)
}

// RemovePodSandbox removes the sandbox with its containers.
func (r *Runtime) RemovePodSandbox(ctx context.Context, id string) error {
	if err := r.perform(ctx, r.sandboxOperation(RemoveSandbox, id)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return nil
	}
	r.stopSandbox(s)
	for _, c := range r.containersOf(s) {
		r.remove(c)
	}
	delete(r.sandboxes, id)
	m := s.status.Metadata
	delete(r.byName, fmt.Sprintf("%s_%s_%s_%d", m.Name, m.Namespace, m.UID, m.Attempt))
	r.publish(cri.EventDeleted, id, m)
	return nil
}

// containersOf returns the sandbox's containers in the order they were created.
func (r *Runtime) containersOf(s *sandbox) []*container {
	var all []*container
	for _, c := range r.containers {
		if c.sandbox == s {
			all = append(all, c)
		}
	}
	newestFirst(all, func(c *container) uint64 { return -c.sequence })
	return all
}

func (r *Runtime) sandboxOperation(verb Verb, id string) Operation {
	r.mu.Lock()
	defer r.mu.Unlock()
	op := Operation{Verb: verb}
	if s, ok := r.sandboxes[id]; ok {
		op.Pod = s.status.Metadata
	}
	return op
}

// SandboxStatus describes one sandbox.
func (r *Runtime) SandboxStatus(ctx context.Context, id string) (cri.SandboxStatus, error) {
	op := r.sandboxOperation(List, id)
	if err := r.perform(ctx, op); err != nil {
		return cri.SandboxStatus{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.sandboxes[id]
	if !ok {
		return cri.SandboxStatus{}, fmt.Errorf("sandbox %q: %w", id, cri.ErrNotFound)
	}
	return copySandbox(s.status), nil
}

// ListSandboxes returns the sandboxes that match, newest first.
func (r *Runtime) ListSandboxes(ctx context.Context, filter cri.Filter) ([]cri.Sandbox, error) {
	if err := r.perform(ctx, Operation{Verb: List}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*sandbox
	for id, s := range r.sandboxes {
		if (filter.ID == "" || filter.ID == id) && matches(s.status.Labels, filter.Labels) {
			found = append(found, s)
		}
	}
	newestFirst(found, func(s *sandbox) uint64 { return s.sequence })
	list := make([]cri.Sandbox, 0, len(found))
	for _, s := range found {
		list = append(list, copySandbox(s.status).Sandbox)
	}
	return list, nil
}
