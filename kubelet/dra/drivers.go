package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/internal/registrars"
)

const scanPeriod = time.Second

// Run registers the drivers whose registrars have sockets in plugins_registry, until the context ends; it then returns
// nil. It fails if the directory cannot be made.
func (m *Manager) Run(ctx context.Context) error {
	registry := filepath.Join(m.dir, "plugins_registry")
	if err := os.MkdirAll(registry, 0o750); err != nil {
		return err
	}
	recalled := m.recall(ctx)
	r := registrars.New(registry, registration.DRAPlugin, plugins{m}, m.log)
	defer r.Wait()
	scan := time.NewTicker(scanPeriod)
	defer scan.Stop()
	for {
		r.Scan(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-scan.C:
			recalled = recalled || m.recall(ctx)
			m.wipe(ctx)
		}
	}
}

// plugins are the drivers that register.
type plugins struct{ *Manager }

// Enter makes a driver known.
func (p plugins) Enter(_ context.Context, info *registration.PluginInfo) error {
	name, endpoint := info.GetName(), info.GetEndpoint()
	if supported := info.GetSupportedVersions(); !slices.Contains(supported, drav1.DRAPluginService) {
		err := fmt.Errorf("none of services supported by the plugin (%q) are supported by the kubelet (%q)", supported, []string{drav1.DRAPluginService})
		if len(supported) == 0 {
			err = errVersions
		}
		return fmt.Errorf("invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: %w", name, endpoint, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.registered[name] = endpoint
	delete(p.gone, name)
	p.log.Info("a DRA driver is registered", "driver", name)
	return nil
}

// errVersions means that a driver does not say which versions it speaks.
var errVersions = errors.New("empty list of supported gRPC services (aka supported versions)")

// Leave forgets a driver.
func (p plugins) Leave(_ context.Context, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.registered, name)
	p.gone[name] = time.Now()
	p.log.Info("a DRA driver is gone", "driver", name)
}

func slicesTarget(name string) client.Target {
	return client.Target{Resource: resourcev1.SchemeGroupVersion.WithResource("resourceslices"), Name: name}
}

// published returns what the node's drivers have published of it.
func (m *Manager) published(ctx context.Context) ([]resourcev1.ResourceSlice, error) {
	obj, err := m.client.List(ctx, slicesTarget(""), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorNodeName, m.node).String(),
	})
	if err != nil {
		return nil, err
	}
	list, ok := obj.(*resourcev1.ResourceSliceList)
	if !ok {
		return nil, fmt.Errorf("listing resource slices: the server answered with a %T", obj)
	}
	return list.Items, nil
}

// recall notes which drivers published devices when another process ran: they are gone unless they register. It returns
// false if the server does not say.
func (m *Manager) recall(ctx context.Context) bool {
	published, err := m.published(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		if ctx.Err() == nil {
			m.log.Warn("listing what DRA drivers have published failed, will retry", "error", err)
		}
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range published {
		if driver := published[i].Spec.Driver; m.registered[driver] == "" {
			m.gone[driver] = time.Now()
		}
	}
	return true
}

// wipe deletes what drivers have published that are gone for too long.
func (m *Manager) wipe(ctx context.Context) {
	m.mu.Lock()
	due := maps.Clone(m.gone)
	maps.DeleteFunc(due, func(_ string, since time.Time) bool { return time.Since(since) < m.options.Absence })
	m.mu.Unlock()
	if len(due) == 0 {
		return
	}
	published, err := m.published(ctx)
	for i := range published {
		s := &published[i]
		if _, ok := due[s.Spec.Driver]; !ok || err != nil {
			continue
		}
		if err = m.client.Delete(ctx, slicesTarget(s.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}}); apierrors.IsNotFound(err) {
			err = nil
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			m.log.Warn("deleting what a DRA driver has published failed, will retry", "error", err)
		}
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for driver, since := range due {
		if m.gone[driver].Equal(since) {
			delete(m.gone, driver)
		}
	}
}

// call calls a driver.
func (m *Manager) call(ctx context.Context, driver string, f func(context.Context, drav1.DRAPluginClient) error) error {
	endpoint, err := m.endpoint(driver)
	if err != nil {
		return err
	}
	conn, err := registrars.Connect(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, m.options.Timeout)
	defer cancel()
	return f(ctx, drav1.NewDRAPluginClient(conn))
}

func (c *claim) message() []*drav1.Claim {
	return []*drav1.Claim{{Namespace: c.Namespace, Uid: string(c.UID), Name: c.Name}}
}

// callPrepare has a driver prepare a claim, and returns its devices.
func (m *Manager) callPrepare(ctx context.Context, driver string, c *claim) ([]device, error) {
	var devices []device
	err := m.call(ctx, driver, func(ctx context.Context, client drav1.DRAPluginClient) error {
		answer, err := client.NodePrepareResources(ctx, &drav1.NodePrepareResourcesRequest{Claims: c.message()})
		if err != nil {
			return fmt.Errorf("NodePrepareResources: %w", err)
		}
		if err := answered("NodePrepareResources", answer.GetClaims(), c); err != nil {
			return err
		}
		for _, d := range answer.GetClaims()[string(c.UID)].GetDevices() {
			devices = append(devices, device{Requests: d.GetRequestNames(), CDI: d.GetCdiDeviceIds()})
		}
		return nil
	})
	return devices, err
}

// callUnprepare has a driver unprepare a claim.
func (m *Manager) callUnprepare(ctx context.Context, driver string, c *claim) error {
	return m.call(ctx, driver, func(ctx context.Context, client drav1.DRAPluginClient) error {
		answer, err := client.NodeUnprepareResources(ctx, &drav1.NodeUnprepareResourcesRequest{Claims: c.message()})
		if err != nil {
			return fmt.Errorf("NodeUnprepareResources: %w", err)
		}
		return answered("NodeUnprepareResources", answer.GetClaims(), c)
	})
}

// answered returns what is wrong with a driver's answer about one claim.
func answered[T interface{ GetError() string }](call string, answer map[string]T, c *claim) error {
	for uid, result := range answer {
		switch {
		case uid != string(c.UID):
			return fmt.Errorf("%s returned result for unknown claim UID %s", call, uid)
		case result.GetError() != "":
			return fmt.Errorf("%s failed for ResourceClaim %s: %s", call, c.Name, result.GetError())
		}
	}
	if len(answer) == 0 {
		return fmt.Errorf("%s skipped %d ResourceClaims", call, 1)
	}
	return nil
}
