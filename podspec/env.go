package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const moreThanOne = "may not have more than one field specified at a time"

func (v *validator) env(vars []corev1.EnvVar, p *field.Path) {
	for i := range vars {
		at := p.Index(i)
		if v.need(at.Child("name"), vars[i].Name) {
			v.invalid(at.Child("name"), vars[i].Name, validation.IsRelaxedEnvVarName(vars[i].Name)...)
		}
		if vars[i].ValueFrom != nil {
			v.valueFrom(&vars[i], at.Child("valueFrom"))
		}
	}
}

func (v *validator) valueFrom(env *corev1.EnvVar, p *field.Path) {
	from, n := env.ValueFrom, 0
	if from.FieldRef != nil {
		n++
		v.fieldRef(from.FieldRef, p.Child("fieldRef"), "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
			"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")
	}
	if from.ResourceFieldRef != nil {
		n++
		v.resourceRef(from.ResourceFieldRef, p.Child("resourceFieldRef"), false)
	}
	if r := from.ConfigMapKeyRef; r != nil {
		n++
		v.keyRef(r.Name, r.Key, p.Child("configMapKeyRef"))
	}
	if r := from.SecretKeyRef; r != nil {
		n++
		v.keyRef(r.Name, r.Key, p.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		n++
		v.fileKeyRef(from.FileKeyRef, p.Child("fileKeyRef"))
	}
	switch {
	case n == 0:
		v.invalid(p, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`")
	case env.Value != "":
		v.invalid(p, "", "may not be specified when `value` is not empty")
	case n > 1:
		v.invalid(p, "", moreThanOne)
	}
}

func (v *validator) envFrom(sources []corev1.EnvFromSource, p *field.Path) {
	for i, s := range sources {
		at, n := p.Index(i), 0
		if s.Prefix != "" {
			v.invalid(at.Child("prefix"), s.Prefix, validation.IsRelaxedEnvVarName(s.Prefix)...)
		}
		if s.ConfigMapRef != nil {
			n++
			v.objectRef(at.Child("configMapRef", "name"), s.ConfigMapRef.Name)
		}
		if s.SecretRef != nil {
			n++
			v.objectRef(at.Child("secretRef", "name"), s.SecretRef.Name)
		}
		switch n {
		case 0:
			v.invalid(p, "", "must specify one of: `configMapRef` or `secretRef`")
		case 2:
			v.invalid(p, "", moreThanOne)
		}
	}
}

func (v *validator) objectRef(p *field.Path, name string) {
	if v.need(p, name) {
		v.name(p, name, true)
	}
}

func (v *validator) keyRef(name, key string, p *field.Path) {
	v.name(p.Child("name"), name, false)
	if v.need(p.Child("key"), key) {
		v.invalid(p.Child("key"), key, validation.IsConfigMapKey(key)...)
	}
}

// fileKeyRef validates a variable read from a file in a volume (KEP-3721).
func (v *validator) fileKeyRef(r *corev1.FileKeySelector, p *field.Path) {
	if v.need(p.Child("key"), r.Key) {
		v.invalid(p.Child("key"), r.Key, validation.IsRelaxedEnvVarName(r.Key)...)
	}
	if v.need(p.Child("volumeName"), r.VolumeName) {
		v.label(p.Child("volumeName"), r.VolumeName)
	}
	if v.need(p.Child("path"), r.Path) {
		v.noBacksteps(p.Child("path"), r.Path)
	}
}

// envFileVolumes checks that variables are read only from files in emptyDir volumes.
func (v *validator) envFileVolumes(p *field.Path) {
	kinds := make(map[string]*corev1.VolumeSource, len(v.spec.Volumes))
	for i := range v.spec.Volumes {
		kinds[v.spec.Volumes[i].Name] = &v.spec.Volumes[i].VolumeSource
	}
	for at, c := range containerPaths(v.spec, p) {
		for i, env := range c.Env {
			if env.ValueFrom == nil || env.ValueFrom.FileKeyRef == nil {
				continue
			}
			name := env.ValueFrom.FileKeyRef.VolumeName
			namePath := at.Child("env").Index(i).Child("valueFrom", "fileKeyRef", "volumeName")
			if source, ok := kinds[name]; !ok {
				v.notFound(namePath, name)
			} else if source.EmptyDir == nil {
				v.invalid(namePath, name, "referenced volume must be of type emptyDir")
			}
		}
	}
}

func (v *validator) downwardFile(f *corev1.DownwardAPIVolumeFile, p *field.Path) {
	v.need(p.Child("path"), f.Path)
	v.localPath(p.Child("path"), f.Path)
	switch {
	case f.FieldRef != nil:
		v.fieldRef(f.FieldRef, p.Child("fieldRef"),
			"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
		if f.ResourceFieldRef != nil {
			v.invalid(p, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
		}
	case f.ResourceFieldRef != nil:
		v.resourceRef(f.ResourceFieldRef, p.Child("resourceFieldRef"), true)
	default:
		v.required(p, "one of fieldRef and resourceFieldRef is required")
	}
	v.fileMode(p.Child("mode"), f.Mode)
	v.userID(p.Child("user"), f.User)
}

// fieldRef validates a reference to a field of the pod. allowed are the paths permitted at this place of the spec,
// besides single labels and annotations.
func (v *validator) fieldRef(r *corev1.ObjectFieldSelector, p *field.Path, allowed ...string) {
	if !v.need(p.Child("apiVersion"), r.APIVersion) || !v.need(p.Child("fieldPath"), r.FieldPath) {
		return
	}
	of, key, subscripted := subscript(r.FieldPath)
	if of == "spec.host" { // the name before v1
		of = "spec.nodeName"
	}
	switch {
	case r.APIVersion != "v1":
		v.invalid(p.Child("fieldPath"), r.FieldPath, "error converting fieldPath: unsupported pod version: "+r.APIVersion)
	case !subscripted && !isDownwardField(of):
		v.invalid(p.Child("fieldPath"), r.FieldPath, "error converting fieldPath: field label not supported: "+r.FieldPath)
	case !subscripted:
		oneOf(&v.report, p.Child("fieldPath"), of, allowed...)
	case of == "metadata.annotations":
		v.qualifiedName(p, strings.ToLower(key))
	case of == "metadata.labels":
		v.qualifiedName(p, key)
	default:
		v.invalid(p.Child("fieldPath"), r.FieldPath, "error converting fieldPath: field label does not support subscript: "+r.FieldPath)
	}
}

// subscript splits metadata.labels['key']. Of anything else it returns the whole path.
func subscript(path string) (of, key string, ok bool) {
	rest, closed := strings.CutSuffix(path, "']")
	of, key, opened := strings.Cut(rest, "['")
	if !closed || !opened || of == "" {
		return path, "", false
	}
	return of, key, true
}

func isDownwardField(path string) bool {
	switch path {
	case "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
		"spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName",
		"status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs":
		return true
	}
	return false
}

// resourceRef validates a reference to a request or limit of a container.
func (v *validator) resourceRef(r *corev1.ResourceFieldSelector, p *field.Path, inVolume bool) {
	const requestPages, limitPages = "requests.hugepages-", "limits.hugepages-"
	pages := strings.HasPrefix(r.Resource, requestPages) || strings.HasPrefix(r.Resource, limitPages)
	switch {
	case inVolume && r.ContainerName == "":
		v.required(p.Child("containerName"), "")
	case r.Resource == "":
		v.required(p.Child("resource"), "")
	case !pages:
		oneOf(&v.report, p.Child("resource"), r.Resource, "limits.cpu", "limits.ephemeral-storage", "limits.memory",
			"requests.cpu", "requests.ephemeral-storage", "requests.memory")
	}
	if !r.Divisor.IsZero() {
		v.divisor(r.Resource, r.Divisor, pages, p.Child("divisor"))
	}
}

func (v *validator) divisor(of string, q resource.Quantity, pages bool, p *field.Path) {
	const sizes = "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "
	isSize := slices.Contains([]string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}, q.String())
	_, name, _ := strings.Cut(of, ".")
	switch {
	case of == "limits.cpu" || of == "requests.cpu":
		if s := q.String(); s != "1m" && s != "1" {
			v.invalid(p, of, "only divisor's values 1m and 1 are supported with the cpu resource")
		}
	case isSize:
	case pages:
		v.invalid(p, of, sizes+"hugepages resource")
	case of == "limits.memory" || of == "requests.memory":
		v.invalid(p, of, sizes+name+" resource")
	case of == "limits.ephemeral-storage" || of == "requests.ephemeral-storage":
		v.invalid(p, of, sizes+"local ephemeral storage resource")
	}
}
