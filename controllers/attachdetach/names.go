package attachdetach

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// prefix begins the names of CSI volumes in the status of nodes; separator is between the driver and its handle.
const (
	prefix    = "kubernetes.io/csi/"
	separator = "^"
)

// VolumeName is the name of a CSI volume in the status of nodes.
func VolumeName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(prefix + driver + separator + handle)
}

// parse returns the driver and the handle of a volume in the status of a node; false if it is no CSI volume.
func parse(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	rest, ok := strings.CutPrefix(string(name), prefix)
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, separator)
}

// AttachmentName is the name of the VolumeAttachment of a volume, by the handle that its driver knows, to a node.
func AttachmentName(handle, driver, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}
