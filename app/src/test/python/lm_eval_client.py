"""Log-likelihoods as lm-eval's local-completions computes them, one JSON object per line: lm_eval_client.py URL MODEL.

Standard input has one request per line: a JSON list of a context and its continuation.
"""

import json
import sys

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

requests = [tuple(json.loads(line)) for line in sys.stdin]
model = LocalCompletionsAPI(base_url=sys.argv[1] + "/v1/completions", model=sys.argv[2], max_retries=1)
instances = [Instance("loglikelihood", {}, request, i) for i, request in enumerate(requests)]
for (context, continuation), (likelihood, greedy) in zip(requests, model.loglikelihood(instances, disable_tqdm=True)):
    print(json.dumps({"context": context, "continuation": continuation, "likelihood": likelihood, "greedy": greedy}))
