package static

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/keelson-dev/keelson/internal/apireference"
	"github.com/keelson-dev/keelson/internal/boundedyaml"
)

// place is where a manifest was read.
type place struct{ file, node string }

// decode makes a pod from a manifest.
func decode(content []byte, from place, prepare func(*corev1.Pod) error) (*corev1.Pod, error) {
	data, err := boundedyaml.ToJSON(content, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse as pod(%w), please check config file", err)
	}
	var kind metav1.TypeMeta
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &kind); err != nil {
		return nil, fmt.Errorf("couldn't parse as pod(%w), please check config file", err)
	}
	if kind.APIVersion != "v1" || kind.Kind != "Pod" {
		return nil, fmt.Errorf("couldn't parse as pod(it is of apiVersion %q and kind %q), please check config file", kind.APIVersion, kind.Kind)
	}
	pod := &corev1.Pod{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, pod); err != nil {
		return nil, fmt.Errorf("couldn't parse as pod(%w), please check config file", err)
	}
	if pod.Name == "" {
		return nil, errors.New("invalid pod: name is needed for the pod")
	}
	if err := adapt(pod, from); err != nil {
		return nil, err
	}
	if err := checkNames(pod); err != nil {
		return nil, err
	}
	if prepare != nil {
		if err := prepare(pod); err != nil {
			return nil, fmt.Errorf("invalid pod: %w", err)
		}
	}
	if resource, err := apireference.Of(pod); err != nil {
		return nil, err
	} else if resource != "" {
		return nil, fmt.Errorf("static pods may not reference %s", resource)
	}
	return pod, nil
}

// adapt turns the pod in a manifest into one of this node.
func adapt(pod *corev1.Pod, from place) error {
	pod.TypeMeta = metav1.TypeMeta{}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.ResourceVersion = nil, nil, "" // copied from an API
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if pod.UID == "" {
		uid, err := uidOf(pod, from)
		if err != nil {
			return err
		}
		pod.UID = uid
	}
	pod.Name += "-" + strings.ToLower(from.node)
	if pod.Namespace == "" {
		pod.Namespace = metav1.NamespaceDefault
	}
	pod.Spec.NodeName = from.node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	delete(pod.Annotations, origin.MirrorAnnotation)
	pod.Annotations[origin.HashAnnotation] = string(pod.UID)
	pod.Annotations[origin.Annotation] = origin.File
	tolerateNoExecute(pod)
	return nil
}

// checkNames rejects names that the API would reject, and UIDs that would be unsafe as parts of paths.
func checkNames(pod *corev1.Pod) error {
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		return fmt.Errorf("invalid pod: metadata.name: Invalid value: %q: %s", pod.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(pod.Namespace); len(problems) > 0 {
		return fmt.Errorf("invalid pod: metadata.namespace: Invalid value: %q: %s", pod.Namespace, strings.Join(problems, "; "))
	}
	if uid := string(pod.UID); uid == "." || uid == ".." || strings.ContainsAny(uid, "/\\\x00") {
		return fmt.Errorf("invalid pod: metadata.uid: Invalid value: %q: must not be a path", uid)
	}
	return nil
}

// uidOf derives a UID from a manifest's content and location: it is the same after every restart, and changes with the
// content.
func uidOf(pod *corev1.Pod, from place) (types.UID, error) {
	data, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("invalid pod: %w", err)
	}
	h := fnv.New128a()
	_, _ = h.Write(data)
	fmt.Fprintf(h, "host:%s", from.node)
	fmt.Fprintf(h, "file:%s", from.file)
	return types.UID(hex.EncodeToString(h.Sum(nil))), nil
}

// tolerateNoExecute keeps a pod on its node whatever the node's condition.
func tolerateNoExecute(pod *corev1.Pod) {
	all := corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	for i, t := range pod.Spec.Tolerations {
		if t.MatchToleration(&all) {
			pod.Spec.Tolerations[i] = all
			return
		}
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, all)
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
