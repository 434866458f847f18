// Package admission checks and completes objects before they are stored: it holds the contract of a [Plugin],
// the errors with which it refuses, and the [Chain] that runs several.
//
// After authentication and authorization of a write, an API server runs every Mutator in order on the defaulted
// object, validates the object, and then runs every Validator in order on what will be stored. A [Reinvoker] may
// have the mutators run a second time. The first failure ends the request. [Ordered] sorts plugins into
// upstream's order. Package admissiontest tests a plugin without a server.
//
// Each of upstream's plugins is a package of its own, with upstream's name and messages: alwaysadmit, alwaysdeny,
// alwayspullimages, certificateapproval, certificatesigning, certificatesubjectrestriction, clustertrustbundleattest,
// defaultingressclass, defaultstorageclass, defaulttolerationseconds, denyserviceexternalips, eventratelimit,
// extendedresourcetoleration, imagepolicywebhook, initialresources, limitpodhardantiaffinitytopology, limitranger, namespaceautoprovision, namespaceexists,
// namespacelifecycle, nodedeclaredfeaturevalidator, noderestriction, ownerreferencespermissionenforcement,
// persistentvolumeclaimresize, podnodeselector, podresizevalidator, podsecurity, podtolerationrestriction, podtopologylabels, priority,
// resourcequota, runtimeclass, serviceaccount, storageobjectinuseprotection, taintnodesbycondition, policy for both plugins
// that act by policies, and webhook for both that ask webhooks. Upstream had initializers once. Package status words refusals for clients.
//
// A single-purpose plugin is a function and a name:
//
//	admission.ValidatorFunc("NoLatest", func(ctx context.Context, r *admission.Request) error { ... }, admission.Create)
//
// # Errors
//
// A plugin refuses with an [*Error], usually made by [Forbidden], whose text is the client's message. One that
// passes on the answer of somebody else returns an error with that answer's Status (apierrors.APIStatus), which
// the client gets unchanged. Any other error is a failure of the server and also fails the request.
//
// # Concurrency
//
// Plugins are safe for concurrent use. A Request belongs to one request.
package admission
