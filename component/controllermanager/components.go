package controllermanager

import (
	"github.com/keelson-dev/keelson/authn"
	"github.com/keelson-dev/keelson/component"
)

// program is the user agent of all controllers.
const program = "kube-controller-manager"

// Components returns all controllers, each with the service account that upstream runs it as.
func Components() []component.Component {
	all := []component.Component{
		{Name: "deployment-controller", Identity: account("deployment-controller"), New: newDeployment},
		{Name: "replicaset-controller", Identity: account("replicaset-controller"), New: newReplicaSet},
		{Name: "cronjob-controller", Identity: account("cronjob-controller"), New: newCronJob},
		{Name: "replicationcontroller-controller", Source: "replication-controller", Identity: account("replication-controller"), New: newReplicationController},
		{Name: "daemonset-controller", Identity: account("daemon-set-controller"), New: newDaemonSet},
		{Name: "statefulset-controller", Identity: account("statefulset-controller"), New: newStatefulSet},
		{Name: "job-controller", Identity: account("job-controller"), New: newJob},
		{Name: "ttl-after-finished-controller", Identity: account("ttl-after-finished-controller"), New: newTTLAfterFinished},
		{Name: "endpoints-controller", Source: "endpoint-controller", Identity: account("endpoint-controller"), New: newEndpoints},
		{Name: "endpointslice-controller", Source: "endpoint-slice-controller", Identity: account("endpointslice-controller"), New: newEndpointSlice},
		{Name: "endpointslice-mirroring-controller", Source: "endpoint-slice-mirroring-controller", Identity: account("endpointslicemirroring-controller"), New: newEndpointSliceMirroring},
		{Name: "service-cidr-controller", Identity: account("service-cidrs-controller"), New: newServiceCIDRs},
		{Name: "garbage-collector-controller", Identity: account("generic-garbage-collector"), New: newGarbageCollector},
		{Name: "namespace-controller", Identity: account("namespace-controller"), New: newNamespace},
		{Name: ServiceAccount, Identity: account("service-account-controller"), New: newServiceAccount},
		{Name: "serviceaccount-token-controller", Identity: manager(), New: newServiceAccountToken},
		{Name: "legacy-serviceaccount-token-cleaner-controller", Identity: account("legacy-service-account-token-cleaner"), New: newLegacyTokenCleaner},
		{Name: "root-ca-certificate-publisher-controller", Identity: account("root-ca-cert-publisher"), New: newRootCA},
		{Name: "clusterrole-aggregation-controller", Identity: account("clusterrole-aggregation-controller"), New: newClusterRoleAggregation},
		{Name: "disruption-controller", Source: "controllermanager", Identity: account("disruption-controller"), New: newDisruption},
		{Name: "node-lifecycle-controller", Source: "node-controller", Identity: account("node-controller"), New: newNodeLifecycle},
		{Name: "taint-eviction-controller", Identity: account("node-controller"), New: newTaintEviction},
		{Name: "pod-garbage-collector-controller", Identity: account("pod-garbage-collector"), New: newPodGC},
		{Name: "ttl-controller", Identity: account("ttl-controller"), New: newTTL},
		{Name: "ephemeral-volume-controller", Source: "ephemeral_volume", Identity: account("ephemeral-volume-controller"), New: newEphemeral},
		{Name: "resourceclaim-controller", Source: "resource_claim", Identity: account("resource-claim-controller"), New: newResourceClaim},
		{Name: "device-taint-eviction-controller", Identity: account("device-taint-eviction-controller"), New: newDeviceTaintEviction},
		{Name: "volumeattributesclass-protection-controller", Identity: account("volumeattributesclass-protection-controller"), New: newVACProtection},
		{Name: "horizontal-pod-autoscaler-controller", Source: "horizontal-pod-autoscaler", Identity: account("horizontal-pod-autoscaler"), New: newHorizontalPodAutoscaler},
		{Name: "persistentvolume-binder-controller", Source: "persistentvolume-controller", Identity: account("persistent-volume-binder"), New: newPVBinder},
		{Name: "persistentvolume-attach-detach-controller", Source: "attachdetach-controller", Identity: account("attachdetach-controller"), New: newAttachDetach},
		{Name: "persistentvolume-expander-controller", Source: "volume_expand", Identity: account("expand-controller"), New: newVolumeExpand},
		{Name: "persistentvolumeclaim-protection-controller", Identity: account("pvc-protection-controller"), New: newPVCProtection},
		{Name: "persistentvolume-protection-controller", Identity: account("pv-protection-controller"), New: newPVProtection},
		{Name: "storage-version-migrator-controller", Identity: account("storage-version-migrator-controller"), New: newStorageVersionMigrator},
		{Name: "resourcequota-controller", Identity: account("resourcequota-controller"), New: newResourceQuota},
		{Name: "certificatesigningrequest-signing-controller", Identity: account("certificate-controller"), New: newCSRSigning},
		{Name: "certificatesigningrequest-approving-controller", Identity: account("certificate-controller"), New: newCSRApproving},
		{Name: "certificatesigningrequest-cleaner-controller", Identity: account("certificate-controller"), New: newCSRCleaner},
		{Name: "podcertificaterequest-cleaner-controller", Identity: account("podcertificaterequestcleaner"), New: newPodCertificateRequestCleaner},
		{Name: "kube-apiserver-serving-clustertrustbundle-publisher-controller", Identity: account("kube-apiserver-serving-clustertrustbundle-publisher"), New: newClusterTrustBundlePublisher},
	}
	for i := range all {
		all[i].Program = program
	}
	return all
}

// ServiceAccount is the name of the component that creates the service accounts "default", which pods need.
const ServiceAccount = "serviceaccount-controller"

// manager is the user of the controller that makes the credentials of others'.
func manager() *authn.Identity {
	return &authn.Identity{Name: "system:kube-controller-manager", Groups: []string{authn.GroupAuthenticated}}
}

func account(name string) *authn.Identity { return authn.ServiceAccountIdentity("kube-system", name) }
