package cluster

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/authz"
	"github.com/keelson-dev/keelson/authz/node"
	"github.com/keelson-dev/keelson/authz/rbac"
	"github.com/keelson-dev/keelson/authz/rbac/bootstrap"
	"github.com/keelson-dev/keelson/authz/superuser"
	"github.com/keelson-dev/keelson/registry"
)

func coreResource(name string) schema.GroupResource { return schema.GroupResource{Resource: name} }

func rbacResource(name string) schema.GroupResource {
	return schema.GroupResource{Group: rbacv1.GroupName, Resource: name}
}

// access decides who may do what.
type access struct {
	authz.Authorizer
	rules authz.RuleResolver // lists what a user may do, as far as the chain can
	rbac  *rbac.Authorizer   // usually the last of the chain
}

// DefaultAuthorizers returns upstream's chain: system:masters, the Node authorizer, RBAC.
func DefaultAuthorizers() []AuthorizerStage {
	return []AuthorizerStage{
		Ready[authz.Authorizer](superuser.Name, superuser.New()),
		{"node", func(p ServerParts) (authz.Authorizer, error) {
			var err error
			in := node.Sources{
				Pods:                view[*corev1.Pod](p.Registry, coreResource("pods"), &err),
				Volumes:             view[*corev1.PersistentVolume](p.Registry, coreResource("persistentvolumes"), &err),
				Attachments:         view[*storagev1.VolumeAttachment](p.Registry, storagev1.Resource("volumeattachments"), &err),
				CertificateRequests: view[*certificatesv1.PodCertificateRequest](p.Registry, certificatesv1.Resource("podcertificaterequests"), &err),
			}
			if err != nil {
				return nil, err
			}
			return node.New(in, rbac.Rules(bootstrap.NodeRules())), nil
		}},
		{"rbac", func(p ServerParts) (authz.Authorizer, error) { return p.RBAC, nil }},
	}
}

// newRoles makes the RBAC authorizer over the roles in the registry.
func (c *Cluster) newRoles() (*rbac.Authorizer, error) {
	var err error
	return rbac.New(rbac.Sources{
		Roles:               view[*rbacv1.Role](c.registry, rbacResource("roles"), &err),
		RoleBindings:        view[*rbacv1.RoleBinding](c.registry, rbacResource("rolebindings"), &err),
		ClusterRoles:        view[*rbacv1.ClusterRole](c.registry, rbacResource("clusterroles"), &err),
		ClusterRoleBindings: view[*rbacv1.ClusterRoleBinding](c.registry, rbacResource("clusterrolebindings"), &err),
	}), err
}

// newAccess makes the chain of authorizers.
func (c *Cluster) newAccess() (err error) {
	if c.access.rbac, err = c.newRoles(); err != nil {
		return err
	}
	all, err := made(c.options.Authorizers, c.serverParts())
	if err != nil {
		return err
	}
	chain := make([]authz.Named, len(all))
	var rules []authz.RuleResolver
	for i, a := range all {
		chain[i] = authz.Named{Name: c.options.Authorizers[i].Name, Authorizer: a}
		if r, ok := a.(authz.RuleResolver); ok {
			rules = append(rules, r)
		}
	}
	c.access.Authorizer, c.access.rules = authz.Union(chain...), authz.UnionRules(rules...)
	return nil
}

// escalation defers to authorizers that exist only once the cluster is assembled.
type escalation struct{ cluster *Cluster }

func (e escalation) check() *rbac.Escalation {
	return rbac.NewEscalation(e.cluster.access.rbac, e.cluster.access.Authorizer)
}

func (e escalation) CheckRole(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule, aggregates bool) error {
	return e.check().CheckRole(ctx, namespace, name, rules, aggregates)
}

func (e escalation) CheckBinding(ctx context.Context, namespace string, role rbacv1.RoleRef) error {
	return e.check().CheckBinding(ctx, namespace, role)
}

// view reads a kind without lag: an acknowledged write affects the next request.
func view[T registry.Object](r *registry.Registry, gr schema.GroupResource, err *error) *registry.Live[T] {
	v, viewErr := registry.NewLive[T](r, gr)
	if viewErr != nil {
		*err = fmt.Errorf("cluster: %w", viewErr)
	}
	return v
}
