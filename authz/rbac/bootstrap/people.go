package bootstrap

import rbacv1 "k8s.io/api/rbac/v1"

// general are the roles of all users who can reach the server, and of cluster-admin.
func general() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		role("cluster-admin",
			on("*", "*", "*"),
			paths("*", "*"),
		),
		role("system:discovery",
			paths("get", "/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),
		),
		role("system:monitoring",
			paths("get", "/flagz /healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/* /statusz"),
			on("get", "core", "nodes/metrics"),
		),
		role("system:basic-user",
			on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
			on("create", "authentication.k8s.io", "selfsubjectreviews"),
		),
		role("system:public-info-viewer",
			paths("get", "/healthz /livez /readyz /version /version/"),
		),
		role("system:service-account-issuer-discovery",
			paths("get", "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"),
		),
		role("system:cluster-trust-bundle-discovery",
			on(read, "certificates.k8s.io", "clustertrustbundles"),
		),
	}
}

// aggregated are the parts of the aggregated roles for people: admin, edit and view.
func aggregated() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		role("system:aggregate-to-admin",
			on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
			on(readWrite, "rbac.authorization.k8s.io", "rolebindings roles"),
		),
		role("system:aggregate-to-edit",
			on(read, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
			on("impersonate", "core", "serviceaccounts"),
			on(write, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
			on("create", "core", "pods/eviction"),
			on(write, "core", "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
			on("create", "core", "serviceaccounts/token"),
			on(write, "core events.k8s.io", "events"),
			on(write, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale"),
			on(write, "autoscaling", "horizontalpodautoscalers"),
			on(write, "batch", "cronjobs jobs"),
			on(write, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
			on(write, "policy", "poddisruptionbudgets"),
			on(write, "networking.k8s.io", "ingresses networkpolicies"),
			on(readWrite, "coordination.k8s.io", "leases"),
			on(write, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
		),
		role("system:aggregate-to-view",
			on(read, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers replicationcontrollers/scale serviceaccounts services services/status"),
			on(read, "core", "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas resourcequotas/status"),
			on(read, "core", "namespaces"),
			on(read, "core events.k8s.io", "events"),
			on(read, "discovery.k8s.io", "endpointslices"),
			on(read, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"),
			on(read, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
			on(read, "batch", "cronjobs cronjobs/status jobs jobs/status"),
			on(read, "extensions", "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"),
			on(read, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
			on(read, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
			on(read, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
		),
	}
}
