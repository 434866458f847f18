package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/client/manifest"
)

// fromCluster reads all roles and bindings.
func fromCluster(ctx context.Context, api kubernetes.Interface) (p rbac.Policy, err error) {
	clusterRoles, err := api.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	clusterRoleBindings, err := api.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	roles, err := api.RbacV1().Roles("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	roleBindings, err := api.RbacV1().RoleBindings("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return p, err
	}
	return rbac.Policy{
		ClusterRoles: pointers(clusterRoles.Items), ClusterRoleBindings: pointers(clusterRoleBindings.Items),
		Roles: pointers(roles.Items), RoleBindings: pointers(roleBindings.Items),
	}, nil
}

func pointers[T any](all []T) (to []*T) {
	for i := range all {
		to = append(to, &all[i])
	}
	return to
}

// manifests collects the roles and bindings of files.
type manifests struct{ rbac.Policy }

// fromFiles reads manifests, and computes what controllers would add to their roles.
func fromFiles(names []string, defaults bool) (rbac.Policy, error) {
	var m manifests
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err == nil {
			err = m.read(data)
		}
		if err != nil {
			return m.Policy, fmt.Errorf("%s: %w", name, err)
		}
	}
	if defaults {
		upstream := bootstrap.Policy()
		m.ClusterRoles, m.ClusterRoleBindings = missing(m.ClusterRoles, upstream.ClusterRoles), missing(m.ClusterRoleBindings, upstream.ClusterRoleBindings)
		m.Roles, m.RoleBindings = missing(m.Roles, upstream.Roles), missing(m.RoleBindings, upstream.RoleBindings)
	}
	// An aggregated role may be part of another one.
	for range m.ClusterRoles {
		changed := false
		for i, role := range m.ClusterRoles {
			if role.AggregationRule == nil {
				continue
			}
			rules, err := rbac.Aggregate(role, m.ClusterRoles)
			if err != nil {
				return m.Policy, fmt.Errorf("ClusterRole %s: %w", role.Name, err)
			}
			if len(rules) != len(role.Rules) {
				whole := *role
				whole.Rules = rules
				m.ClusterRoles[i], changed = &whole, true
			}
		}
		if !changed {
			break
		}
	}
	return m.Policy, nil
}

// missing adds the objects whose names are not there.
func missing[T metav1.Object](have, more []T) []T {
	for _, obj := range more {
		if !slices.ContainsFunc(have, func(h T) bool { return h.GetNamespace() == obj.GetNamespace() && h.GetName() == obj.GetName() }) {
			have = append(have, obj)
		}
	}
	return have
}

// read adds the objects of a file that are about access.
func (m *manifests) read(data []byte) error {
	for obj, err := range manifest.Decode(data, scheme.Codecs.UniversalDeserializer()) {
		if err != nil {
			return err
		}
		m.add(obj)
	}
	return nil
}

func (m *manifests) add(obj runtime.Object) {
	switch obj := obj.(type) {
	case *rbacv1.ClusterRole:
		m.ClusterRoles = append(m.ClusterRoles, obj)
	case *rbacv1.ClusterRoleBinding:
		m.ClusterRoleBindings = append(m.ClusterRoleBindings, obj)
	case *rbacv1.Role:
		obj.Namespace = orDefault(obj.Namespace)
		m.Roles = append(m.Roles, obj)
	case *rbacv1.RoleBinding:
		obj.Namespace = orDefault(obj.Namespace)
		m.RoleBindings = append(m.RoleBindings, obj)
	}
}

func orDefault(namespace string) string {
	if namespace == "" {
		return corev1.NamespaceDefault
	}
	return namespace
}
