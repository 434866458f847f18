package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/kubeconfig"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/cluster/clusterdns"
	"github.com/keelson-dev/keelson/cni/netns"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/pki"
)

// fleet has the nodes of --hosts netns. Each node is a network namespace with a process of its own: this program, as hostCommand.
type fleet struct {
	*machines
	*wire
	server netip.AddrPort // of the API, as hosts reach it
	roots  []byte         // that have signed its certificate
	nodes  []string
}

func (m *machines) newFleet(server netip.AddrPort, roots []byte) *fleet {
	h := &fleet{machines: m, wire: m.wire, server: server, roots: roots}
	for i := range m.settings.nodes {
		h.nodes = append(h.nodes, fmt.Sprintf("node-%d", i))
	}
	return h
}

// Run connects the hosts and runs them until the context ends; then it switches them off.
func (h *fleet) Run(ctx context.Context) error {
	if err := h.up(ctx, h.nodes); err != nil {
		return errors.Join(err, h.wire.down(context.WithoutCancel(ctx)))
	}
	var all []lifecycle.Runnable
	for i, name := range h.nodes {
		all = append(all, lifecycle.Func(func(ctx context.Context) error {
			if err := h.run(ctx, i, name); err != nil && ctx.Err() == nil {
				return fmt.Errorf("host %s: %w", name, err)
			}
			return nil
		}))
	}
	err := lifecycle.Group(all...).Run(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	return errors.Join(err, h.off(ctx))
}

// off ends everything that hosts have on this machine.
func (m *machines) off(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(m.settings.dataDir, "nodes"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		m.say("removing node %s", e.Name())
		errs = append(errs, m.remove(ctx, e.Name()))
	}
	return errors.Join(append(errs, m.wire.down(ctx))...)
}

// run runs one host: its process and the cluster's names.
func (h *fleet) run(ctx context.Context, number int, name string) error {
	address := h.address(number)
	c, err := h.config(ctx, name, address)
	if err != nil {
		return err
	}
	runs := []lifecycle.Runnable{lifecycle.Func(func(ctx context.Context) error { return h.process(ctx, c) })}
	if h.names != nil {
		var sockets clusterdns.Sockets
		if err := netns.Do(h.namespace(name), func() error {
			sockets, err = h.names.Listen(ctx, address)
			return err
		}); err != nil {
			return err
		}
		runs = append(runs, lifecycle.Func(func(ctx context.Context) error {
			return h.names.Serve(ctx, name, address, sockets)
		}))
	}
	return lifecycle.Group(runs...).Run(ctx)
}

// config makes what a host is told, and its credentials.
func (h *fleet) config(ctx context.Context, name string, address netip.Addr) (*hostConfig, error) {
	s := h.settings
	dir, err := filepath.Abs(h.machines.dir(name))
	if err != nil {
		return nil, err
	}
	c := &hostConfig{
		Name: name, Dir: dir, Lock: h.lock(name), Address: address, Pods: s.network, Services: netip.MustParsePrefix(serviceRange),
		Archives: h.archives, Mirrors: h.mirrors(), Verbose: s.verbose,
		Policies: !s.disabled("networkpolicies"),
	}
	if h.names != nil {
		c.DNS, c.Domain = h.names.Address(), h.names.Domain()
	}
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return nil, err
	}
	for path, subject := range map[string]pki.Subject{
		c.kubeconfig():       {Name: "system:node:" + name, Groups: []string{"system:nodes"}},
		c.proxyKubeconfig():  {Name: "system:kube-proxy"},
		c.policyKubeconfig(): {Name: policyUser},
	} {
		pair, err := h.authority.Issue(subject, life)
		if err != nil {
			return nil, err
		}
		if err := kubeconfig.Add(ctx, path, kubeconfig.Entry{
			Name: "keelson", User: subject.Name, Server: "https://" + h.server.String(), CA: h.roots, Certificate: pair.Certificate, Key: pair.Key,
		}); err != nil {
			return nil, err
		}
	}
	pair, err := h.authority.Issue(pki.Subject{
		Name: "system:node:" + name, Groups: []string{"system:nodes"}, Hosts: []string{name, address.String()},
	}, life)
	if err != nil {
		return nil, err
	}
	return c, errors.Join(
		os.WriteFile(c.certificate(), pair.Certificate, 0o600), os.WriteFile(c.key(), pair.Key, 0o600),
		os.WriteFile(c.clientCA(), h.authority.PEM(), 0o600),
	)
}

// process runs the process of a host until the context ends.
func (h *fleet) process(ctx context.Context, c *hostConfig) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	p := exec.Command(self, hostCommand) //nolint:noctx // it ends when its input does, also if this process is killed
	// Ctrl-C at a terminal is for this process, which then ends the others.
	p.SysProcAttr, p.Stderr = &syscall.SysProcAttr{Setpgid: true}, os.Stderr
	input, err := p.StdinPipe()
	if err != nil {
		return err
	}
	output, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := netns.Do(h.namespace(c.Name), p.Start); err != nil {
		return err
	}
	if _, err := input.Write(append(config, '\n')); err != nil {
		_ = p.Process.Kill()
		return errors.Join(err, p.Wait())
	}
	stop := context.AfterFunc(ctx, func() { _ = input.Close() })
	defer stop()
	h.relay(c.Name, output)
	if err := p.Wait(); err != nil {
		return err
	}
	if ctx.Err() == nil {
		return errors.New("its process has ended")
	}
	return nil
}

// relay says what a host says, line by line, until its end.
func (h *fleet) relay(name string, output io.Reader) {
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		h.say("%s: %s", name, lines.Text())
	}
}

// hostRoles lets the hosts read what network policies are about. What kubelets and proxies may do, they may in any cluster.
func hostRoles() cluster.Extension {
	return cluster.Extension{Name: "host-roles", New: func(p *cluster.ExtensionParts) (cluster.Extended, error) {
		return roles{p.Client}, nil
	}}
}

type roles struct{ api client.Client }

// Prepare implements cluster.Extended.
func (r roles) Prepare(ctx context.Context) error {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policyUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: policyUser}},
	}
	_, err := r.api.Create(ctx, client.Target{Resource: rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings")}, binding, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Run implements cluster.Extended.
func (r roles) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
