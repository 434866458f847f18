package generate

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// Image says what is wrong with an image reference: it is [registry/]repository[:tag][@digest].
func Image(ref string) error {
	if ref == "" {
		return fmt.Errorf("--image is required")
	}
	if !reference.ReferenceRegexp.MatchString(ref) {
		return fmt.Errorf("invalid image name %q: %w", ref, reference.ErrReferenceInvalidFormat)
	}
	return nil
}

// checkName checks a name by the server's rule for its kind.
func checkName(kind, name string, rule validation.ValidateNameFunc) error {
	if name == "" {
		return fmt.Errorf("name must be specified")
	}
	if problems := rule(name, false); len(problems) > 0 {
		return fmt.Errorf("invalid %s name %q: %s", kind, name, strings.Join(problems, "; "))
	}
	return nil
}

// The rules for names that are not DNS subdomains or labels.
func roleName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// jobName: a job's name becomes a label of its pods.
func jobName(name string, prefix bool) []string {
	return append(validation.NameIsDNSSubdomain(name, prefix), maxLength(name, utilvalidation.DNS1123LabelMaxLength)...)
}

// cronJobName leaves room for the eleven characters that tell its jobs apart.
func cronJobName(name string, prefix bool) []string {
	return append(validation.NameIsDNSSubdomain(name, prefix), maxLength(name, utilvalidation.DNS1035LabelMaxLength-11)...)
}

func maxLength(name string, limit int) []string {
	if len(name) > limit {
		return []string{utilvalidation.MaxLenError(limit)}
	}
	return nil
}

func typeMeta(gv schema.GroupVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gv.String(), Kind: kind}
}
