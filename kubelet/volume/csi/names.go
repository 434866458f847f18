package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	pluginName = "kubernetes.io/csi"
	dataFile   = "vol_data.json"
	// The last parts of the paths where volumes are published and staged.
	mountDir, stagingDir = "mount", "globalmount"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// attachmentName is the name of the VolumeAttachment of a volume to a node.
func attachmentName(handle, driver, node string) string { return "csi-" + hash(handle+driver+node) }

// inlineHandle is the handle of a volume that is made for a pod.
func inlineHandle(uid types.UID, volume string) string { return "csi-" + hash(string(uid)+volume) }

// uniqueName is the name of a volume in the status of nodes.
func uniqueName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(pluginName + "/" + driver + "^" + handle)
}

// stagingPath is where a volume is staged.
func (d *Drivers) stagingPath(driver, handle string) string {
	return filepath.Join(d.dir, "plugins", pluginName, driver, hash(handle), stagingDir)
}
