package bootstrap

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/authn"
)

const (
	controllerManager = "system:kube-controller-manager"
	scheduler         = "system:kube-scheduler"
)

// bindings are those of cluster roles except the controllers'. system:node has no subjects by default: the Node
// authorizer gives each node what it needs.
func bindings() []*rbacv1.ClusterRoleBinding {
	return []*rbacv1.ClusterRoleBinding{
		bind("cluster-admin", group(authn.GroupMasters)),
		bind("system:monitoring", group("system:monitoring")),
		bind("system:discovery", group(authn.GroupAuthenticated)),
		bind("system:basic-user", group(authn.GroupAuthenticated)),
		bind("system:public-info-viewer", group(authn.GroupAuthenticated), group(authn.GroupUnauthenticated)),
		bind("system:node-proxier", user("system:kube-proxy")),
		bind("system:kube-controller-manager", user(controllerManager)),
		bind("system:kube-dns", account("kube-dns")),
		bind("system:kube-scheduler", user(scheduler)),
		bind("system:volume-scheduler", user(scheduler)),
		bind("system:node"),
		bind("system:service-account-issuer-discovery", group(authn.GroupServiceAccounts)),
		bind("system:cluster-trust-bundle-discovery", group(authn.GroupServiceAccounts)),
	}
}

// controllerBindings bind each controller's role to the service account it runs as.
func controllerBindings(controllers []*rbacv1.ClusterRole) []*rbacv1.ClusterRoleBinding {
	all := make([]*rbacv1.ClusterRoleBinding, 0, len(controllers))
	for _, role := range controllers {
		all = append(all, bind(role.Name, account(strings.TrimPrefix(role.Name, controllerPrefix))))
	}
	return all
}

// bind returns the binding of a cluster role, which has the same name.
func bind(role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta("", role),
		Subjects:   subjects,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}
}

func namespaceRoles() []*rbacv1.Role {
	role := func(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: meta(namespace, name), Rules: rules}
	}
	lock := func(resource string) rbacv1.PolicyRule {
		return on("create get list update watch", "coordination.k8s.io", resource)
	}
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	return []*rbacv1.Role{
		role(system, "extension-apiserver-authentication-reader", named(read, "core", "configmaps", "extension-apiserver-authentication")),
		role(system, "system:controller:bootstrap-signer", on(read, "core", "secrets")),
		role(system, "system:controller:cloud-provider", on("create get list watch", "core", "configmaps")),
		role(system, "system:controller:token-cleaner", on("delete get list watch", "core", "secrets"), recordEvents()),
		role(system, "system::leader-locking-kube-controller-manager", lock("leases"), lock("leasecandidates")),
		role(system, "system::leader-locking-kube-scheduler", lock("leases"), lock("leasecandidates")),
		role(public, "system:controller:bootstrap-signer", on(read, "core", "configmaps"), named("update", "core", "configmaps", "cluster-info"), recordEvents()),
	}
}

func namespaceBindings() []*rbacv1.RoleBinding {
	bind := func(namespace, name, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{
			ObjectMeta: meta(namespace, name),
			Subjects:   subjects,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
		}
	}
	own := func(namespace, role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
		return bind(namespace, role, role, subjects...)
	}
	const system, public = metav1.NamespaceSystem, metav1.NamespacePublic
	return []*rbacv1.RoleBinding{
		bind(system, "system::extension-apiserver-authentication-reader", "extension-apiserver-authentication-reader", user(controllerManager), user(scheduler)),
		own(system, "system::leader-locking-kube-controller-manager", user(controllerManager), account("kube-controller-manager"), account("leader-election-controller")),
		own(system, "system::leader-locking-kube-scheduler", user(scheduler), account("kube-scheduler")),
		own(system, "system:controller:bootstrap-signer", account("bootstrap-signer")),
		own(system, "system:controller:cloud-provider", account("cloud-provider")),
		own(system, "system:controller:token-cleaner", account("token-cleaner")),
		own(public, "system:controller:bootstrap-signer", account("bootstrap-signer")),
	}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: name}
}

// account is a service account in kube-system.
func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: name}
}
