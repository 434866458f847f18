package volumes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
)

// replaced reports whether upstream's scheduler counts volumes of a former plugin as those of its CSI driver.
func replaced(plugin string) bool {
	switch plugin {
	case plugins.AWSEBSInTreePluginName, plugins.GCEPDInTreePluginName, plugins.AzureDiskInTreePluginName,
		plugins.CinderInTreePluginName, plugins.PortworxVolumePluginName:
		return true
	}
	return false
}

// replaceable returns the former plugin of a volume if it may have been replaced.
func replaceable(pv *corev1.PersistentVolume) string {
	name, err := csitranslation.New().GetInTreePluginNameFromSpec(pv, nil)
	if err != nil || !replaced(name) {
		return ""
	}
	return name
}

// onNode reports whether a node says that a plugin has been replaced there.
func onNode(plugin string, node *storagev1.CSINode) bool {
	return node != nil && slices.Contains(strings.Split(node.Annotations[corev1.MigratedPluginsAnnotationKey], ","), plugin)
}

// translated returns the volume that a CSI driver has in place of a former plugin's.
func translated(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	csi, err := csitranslation.New().TranslateInTreePVToCSI(logr.Logger{}, pv)
	if err != nil {
		return nil, fmt.Errorf("could not translate pv: %w", err)
	}
	return csi, nil
}

// translatedInline is translated for a pod's volume without a claim.
func translatedInline(namespace string, volume *corev1.Volume) (*corev1.PersistentVolume, error) {
	csi, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(logr.Logger{}, volume, namespace)
	if err != nil {
		return nil, fmt.Errorf("converting volume(%s) from inline to csi: %w", volume.Name, err)
	}
	return csi, nil
}

// Inline reports whether a pod's volume, without a claim, is one that a CSI driver may have taken over.
func Inline(volume *corev1.Volume) bool { return csitranslation.New().IsInlineMigratable(volume) }

// InlineDriver returns the driver that has taken over a pod's volume without a claim.
func InlineDriver(namespace string, volume *corev1.Volume) (string, error) {
	pv, err := translatedInline(namespace, volume)
	if err != nil {
		return "", err
	}
	if pv.Spec.CSI == nil {
		return "", nil
	}
	return pv.Spec.CSI.Driver, nil
}
