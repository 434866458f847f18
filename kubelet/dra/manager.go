package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/internal/turns"
)

// ErrNotRegistered means that the driver of a device is not registered at this node.
var ErrNotRegistered = errors.New("is not registered")

// Client is what a Manager needs of the server, as the node.
type Client interface {
	client.Getter
	client.Lister
	client.Deleter
}

// Options of a Manager. The zero value works.
type Options struct {
	// Timeout is how long a call of a driver may take; 0 means upstream's 45 seconds.
	Timeout time.Duration
	// Absence is for how long a driver may be gone before what it has published of the node is deleted; 0 means upstream's 30
	// seconds.
	Absence time.Duration
	Logger  *slog.Logger // nil discards
}

// Manager has devices prepared. Make one with New.
type Manager struct {
	dir, node string
	client    Client
	options   Options
	log       *slog.Logger
	turns     turns.Turns[types.UID] // calls about one claim follow each other

	mu         sync.Mutex
	registered map[string]string    // endpoints, by the drivers' names
	gone       map[string]time.Time // since when drivers are gone that may have published devices
	claims     map[types.UID]*claim // those that are not modified any more are shared
}

// New makes the manager of a node whose kubelet keeps everything below the directory, upstream's /var/lib/kubelet. It fails
// if what an earlier process has left cannot be read.
func New(dir, node string, c Client, o Options) (*Manager, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("the directory of drivers must be absolute, not %q", dir)
	}
	o.Timeout = cmp.Or(o.Timeout, 45*time.Second)
	o.Absence = cmp.Or(o.Absence, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		dir: filepath.Clean(dir), node: node, client: c, options: o, log: o.Logger,
		registered: map[string]string{}, gone: map[string]time.Time{},
	}
	var err error
	m.claims, err = load(m.stateDir())
	return m, err
}

func (m *Manager) stateDir() string { return filepath.Join(m.dir, "dra") }

// Prepare has the devices of a pod's claims prepared. It does nothing for those that are.
func (m *Manager) Prepare(ctx context.Context, pod *corev1.Pod) error {
	if err := m.prepare(ctx, pod); err != nil {
		return fmt.Errorf("prepare dynamic resources: %w", err)
	}
	return nil
}

func (m *Manager) prepare(ctx context.Context, pod *corev1.Pod) error {
	var all []*resourcev1.ResourceClaim
	for i := range pod.Spec.ResourceClaims {
		name, own, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return err
		}
		if name == nil || m.prepared(pod, *name) {
			continue
		}
		c, err := m.read(ctx, pod, *name)
		if err != nil {
			return err
		}
		if own {
			if err := resourceclaim.IsForPod(pod, c, false); err != nil {
				return err
			}
		}
		all = append(all, c)
	}
	// Nothing is noted before all drivers are known to be there, so that a pod can go whose driver never was.
	for _, c := range all {
		for _, driver := range driversOf(c) {
			if _, err := m.endpoint(driver); err != nil {
				return err
			}
		}
	}
	for _, c := range all {
		if err := m.prepareClaim(ctx, pod, c); err != nil {
			return err
		}
	}
	return nil
}

// read returns a claim that the pod may use.
func (m *Manager) read(ctx context.Context, pod *corev1.Pod, name string) (*resourcev1.ResourceClaim, error) {
	obj, err := m.client.Get(ctx, client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceclaims"), Namespace: pod.Namespace, Name: name})
	if err != nil {
		return nil, fmt.Errorf("fetch ResourceClaim %s: %w", name, err)
	}
	c, ok := obj.(*resourcev1.ResourceClaim)
	switch {
	case !ok:
		return nil, fmt.Errorf("fetch ResourceClaim %s: the server answered with a %T", name, obj)
	case !resourceclaim.IsReservedForPod(pod, c, false):
		return nil, fmt.Errorf("pod %s (%s) is not allowed to use ResourceClaim %s (%s)", pod.Name, pod.UID, name, c.UID)
	case c.Status.Allocation == nil:
		return nil, fmt.Errorf("ResourceClaim %s: not allocated", name)
	}
	return c, nil
}

// driversOf returns the drivers of a claim's devices, sorted.
func driversOf(c *resourcev1.ResourceClaim) []string {
	drivers := map[string]bool{}
	for _, r := range c.Status.Allocation.Devices.Results {
		drivers[r.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

func (m *Manager) endpoint(driver string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if driver == "" {
		return "", errors.New("DRA driver name is empty")
	}
	endpoint, ok := m.registered[driver]
	if !ok {
		return "", fmt.Errorf("DRA driver %s %w", driver, ErrNotRegistered)
	}
	return endpoint, nil
}

// prepared reports whether a claim is prepared for a pod.
func (m *Manager) prepared(pod *corev1.Pod, name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.named(pod.Namespace, name)
	return c != nil && c.Prepared && slices.Contains(c.Pods, pod.UID)
}

// named returns the claim of a name, or nil.
func (m *Manager) named(namespace, name string) *claim {
	for _, c := range m.claims {
		if c.Namespace == namespace && c.Name == name {
			return c
		}
	}
	return nil
}

// prepareClaim notes that the pod has the claim, and has its drivers prepare it unless that is done.
func (m *Manager) prepareClaim(ctx context.Context, pod *corev1.Pod, of *resourcev1.ResourceClaim) error {
	unlock, err := m.turns.Lock(ctx, of.UID)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	known, other := m.claims[of.UID], m.named(of.Namespace, of.Name)
	m.mu.Unlock()
	switch {
	case known == nil && other != nil:
		return fmt.Errorf("old ResourceClaim with same name %s and different UID %s still exists (previous pod force-deleted?!)", of.Name, other.UID)
	case known == nil:
		known = &claim{Namespace: of.Namespace, Name: of.Name, UID: of.UID, Drivers: driversOf(of)}
	case known.Leaving:
		return fmt.Errorf("ResourceClaim %s is being unprepared", of.Name)
	}
	next := known.with(pod.UID)
	if err := m.keep(next); err != nil {
		return err
	}
	if next.Prepared {
		return nil
	}
	var devices []device
	for _, driver := range next.Drivers {
		some, err := m.callPrepare(ctx, driver, next)
		if err != nil {
			return err
		}
		devices = append(devices, some...)
	}
	next = next.clone()
	next.Devices, next.Prepared = devices, true
	return m.keep(next)
}

// keep writes a claim to its file and then makes it known.
func (m *Manager) keep(c *claim) error {
	if err := c.save(m.stateDir()); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims[c.UID] = c
	return nil
}

// CDIDevices returns the names of a container's devices.
func (m *Manager) CDIDevices(pod *corev1.Pod, container *corev1.Container) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for i := range pod.Spec.ResourceClaims {
		of := &pod.Spec.ResourceClaims[i]
		for _, use := range container.Resources.Claims {
			if use.Name != of.Name {
				continue
			}
			name, _, err := resourceclaim.Name(pod, of)
			if err != nil {
				return nil, err
			}
			if name == nil {
				continue
			}
			c := m.named(pod.Namespace, *name)
			if c == nil || !c.Prepared {
				return nil, fmt.Errorf("ResourceClaim %s is not prepared", *name)
			}
			for _, d := range c.Devices {
				if use.Request == "" || len(d.Requests) == 0 || slices.Contains(d.Requests, use.Request) {
					names = append(names, d.CDI...)
				}
			}
		}
	}
	return names, nil
}

// Release has the claims unprepared that no other pod has.
func (m *Manager) Release(ctx context.Context, pod types.UID) error {
	m.mu.Lock()
	var all []types.UID
	for uid, c := range m.claims {
		if slices.Contains(c.Pods, pod) {
			all = append(all, uid)
		}
	}
	m.mu.Unlock()
	slices.Sort(all)
	for _, uid := range all {
		if err := m.releaseClaim(ctx, pod, uid); err != nil {
			return fmt.Errorf("unprepare dynamic resources: %w", err)
		}
	}
	return nil
}

func (m *Manager) releaseClaim(ctx context.Context, pod, uid types.UID) error {
	unlock, err := m.turns.Lock(ctx, uid)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	c := m.claims[uid]
	m.mu.Unlock()
	if c == nil || !slices.Contains(c.Pods, pod) {
		return nil
	}
	next := c.clone()
	if len(c.Pods) > 1 {
		next.Pods = slices.DeleteFunc(next.Pods, func(p types.UID) bool { return p == pod })
		return m.keep(next)
	}
	next.Leaving = true
	if err := m.keep(next); err != nil {
		return err
	}
	for _, driver := range next.Drivers {
		if err := m.callUnprepare(ctx, driver, next); err != nil {
			return err
		}
	}
	if err := next.remove(m.stateDir()); err != nil {
		return fmt.Errorf("checkpoint ResourceClaim state: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, uid)
	return nil
}

// Orphans returns the pods that have claims and of which live knows nothing.
func (m *Manager) Orphans(live func(types.UID) bool) ([]types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[types.UID]bool{}
	for _, c := range m.claims {
		for _, pod := range c.Pods {
			found[pod] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), live), nil
}
