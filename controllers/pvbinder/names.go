package pvbinder

// Annotations and finalizers, by which controllers, the scheduler and provisioners understand each other.
const (
	bindCompleted   = "pv.kubernetes.io/bind-completed"      // on claims that have been bound
	boundByUs       = "pv.kubernetes.io/bound-by-controller" // on both sides of a binding: a controller, not a user, made it
	provisionedBy   = "pv.kubernetes.io/provisioned-by"      // on volumes: who made them for a claim
	migratedTo      = "pv.kubernetes.io/migrated-to"         // on both: the CSI driver in place of a plugin
	selectedNode    = "volume.kubernetes.io/selected-node"   // on claims: where their first consumer is to run
	askedFor        = "volume.kubernetes.io/storage-provisioner"
	askedForBeta    = "volume.beta.kubernetes.io/storage-provisioner"
	sizeBefore      = "volume.alpha.kubernetes.io/pre-resize-capacity" // on expanded volumes whose file system is not yet
	defaultMark     = "storageclass.kubernetes.io/is-default-class"
	defaultMarkBeta = "storageclass.beta.kubernetes.io/is-default-class"

	provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
	pluginFinalizer      = "kubernetes.io/pv-controller" // on volumes that a plugin of Kubernetes is to delete
)

const (
	inTree = "kubernetes.io/" // begins the names of upstream's own plugins
	nfs    = inTree + "nfs"   // is known upstream, but makes and deletes no volumes
)

// migrated returns the CSI driver that has taken over from a plugin of upstream's.
func migrated(plugin string) (string, bool) {
	driver, ok := map[string]string{
		inTree + "aws-ebs":         "ebs.csi.aws.com",
		inTree + "gce-pd":          "pd.csi.storage.gke.io",
		inTree + "azure-disk":      "disk.csi.azure.com",
		inTree + "azure-file":      "file.csi.azure.com",
		inTree + "cinder":          "cinder.csi.openstack.org",
		inTree + "vsphere-volume":  "csi.vsphere.vmware.com",
		inTree + "portworx-volume": "pxd.portworx.com",
	}[plugin]
	return driver, ok
}
