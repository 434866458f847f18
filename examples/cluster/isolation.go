package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/component"
	"github.com/keelson-dev/keelson/lifecycle"
	"github.com/keelson-dev/keelson/networkpolicy"
	"github.com/keelson-dev/keelson/networkpolicy/nftables"
)

// policyTable is the name of the table for the network policies of the cluster in the data directory.
func (s *settings) policyTable() (string, error) {
	dir, err := filepath.Abs(s.dataDir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("keelson-networkpolicy-%x", sha256.Sum256([]byte(dir)))[:len("keelson-networkpolicy-")+8], nil
}

// isolation enforces network policies on this machine. All nodes are on it and share its network, so one does for them.
// What it cannot enforce is said to the user.
func (m *machines) isolation() cluster.Component { return isolationOf(m.settings.policyTable, m.say) }

// policyUser is who follows network policies.
const policyUser = "keelson:network-policies"

// isolationOf enforces network policies on a host, with a table of its own.
func isolationOf(named func() (string, error), say func(format string, args ...any)) cluster.Component {
	return cluster.Component{
		Name: "network-policies", Identity: &authn.Identity{Name: policyUser, Groups: []string{authn.GroupAuthenticated}},
		New: func(p *component.Parts) (lifecycle.Runnable, error) {
			table, err := named()
			if err != nil {
				return nil, err
			}
			if err := nftables.PoliceBridges(); errors.Is(err, nftables.ErrBridges) {
				say("network policies do not hold between pods of one node: %v", err)
			} else if err != nil {
				return nil, err
			}
			writer, err := nftables.New(nftables.Options{Table: table})
			if err != nil {
				return nil, err
			}
			enforcer := networkpolicy.New(networkpolicy.Sources{
				Policies:   component.Informer[*networkingv1.NetworkPolicy](p.Informers, networkingv1.SchemeGroupVersion.WithResource("networkpolicies")),
				Namespaces: component.Informer[*corev1.Namespace](p.Informers, corev1.SchemeGroupVersion.WithResource("namespaces")),
				Pods:       component.Informer[*corev1.Pod](p.Informers, corev1.SchemeGroupVersion.WithResource("pods")),
			}, writer, networkpolicy.Options{Logger: p.Logger})
			return lifecycle.Func(func(ctx context.Context) error {
				defer func() { _ = writer.Close() }()
				return enforcer.Run(ctx)
			}), nil
		},
	}
}

// removePolicies removes what isolation has left on this machine.
func (s *settings) removePolicies(ctx context.Context) error {
	table, err := s.policyTable()
	if err != nil {
		return err
	}
	writer, err := nftables.New(nftables.Options{Table: table})
	if err != nil {
		return err
	}
	defer func() { _ = writer.Close() }()
	return writer.Remove(ctx)
}
